package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// process is a child of the demo: an app or a sidecar.
type process struct {
	name string // as the demo calls it, such as "sidecar A"
	log  string // path of its log
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended

	killed bool // by the demo
}

// launch starts a child with the given environment added to the demo's own, in
// the directory of its log, to which its output is appended. Its life isn't
// ctx's: it ends by [process.kill] or [process.stop].
func launch(ctx context.Context, name, log string, env []string, binary string, args ...string) (*process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer func() { _ = file.Close() }() // the child has its own copy

	cmd := exec.CommandContext(context.WithoutCancel(ctx), binary, args...)
	cmd.Dir = filepath.Dir(log)
	cmd.Env = append(cleanEnviron(), env...)
	cmd.Stdout, cmd.Stderr = file, file
	cmd.SysProcAttr = childAttr()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &process{name: name, log: log, cmd: cmd, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // what it says is in cmd.ProcessState too
		close(p.done)
	}()
	return p, nil
}

// cleanEnviron is the demo's environment without what would configure a sidecar
// or a Postgres client.
func cleanEnviron() []string {
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "SCHED_") && !strings.HasPrefix(kv, "PG") {
			env = append(env, kv)
		}
	}
	return env
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// ended says whether, and how, the process has ended.
func (p *process) ended() (how string, ended bool) {
	select {
	case <-p.done:
		return p.cmd.ProcessState.String(), true
	default:
		return "", false
	}
}

// kill sends SIGKILL and waits until the process is gone.
func (p *process) kill() {
	p.killed = true
	_ = p.cmd.Process.Kill() // fails only if it has ended already
	<-p.done
}

// stop asks the process to end, and kills it if it hasn't within the grace.
func (p *process) stop(grace time.Duration) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails only if it has ended already
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.kill()
	}
}
