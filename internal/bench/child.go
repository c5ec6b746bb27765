package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	childStart = 20 * time.Second // until it says where it listens
	childStop  = 15 * time.Second // from SIGTERM to SIGKILL
	tailBytes  = 16 << 10
)

// child is a process of the run: an app, a River client or a sidecar.
type child struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.Closer
	output *output
	exited chan struct{}
	status error  // of the process, once exited
	addr   string // host:port where it listens for us
}

// startChild starts a process and waits until it has printed a JSON line with an
// "addr". It gets no environment but env and what a program needs to run.
func startChild(ctx context.Context, name string, command, env []string) (*child, error) {
	c := &child{name: name, output: newOutput(), exited: make(chan struct{})}
	// Its own end is ours to see to, so that it is asked before it is killed.
	c.cmd = exec.CommandContext(context.WithoutCancel(ctx), command[0], command[1:]...)
	c.cmd.Dir = os.TempDir() // no stray configuration file
	c.cmd.Env = childEnv(env)
	c.cmd.Stdout, c.cmd.Stderr = c.output, c.output
	endWithParent(c.cmd)
	stdin, err := c.cmd.StdinPipe() // its end tells our own children that we are gone
	if err != nil {
		return nil, fmt.Errorf("starting the %s: %w", name, err)
	}
	c.stdin = stdin
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the %s: %w", name, err)
	}
	go func() {
		defer close(c.exited)
		c.status = c.cmd.Wait()
	}()
	timer := time.NewTimer(childStart)
	defer timer.Stop()
	select {
	case c.addr = <-c.output.addr:
		return c, nil
	case <-c.exited:
		return nil, fmt.Errorf("the %s ended at its start (%w):\n%s", name, errors.Join(c.status), c.output.tail())
	case <-timer.C:
		err = fmt.Errorf("the %s didn't say where it listens within %s", name, childStart)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return nil, errors.Join(err, c.stop())
}

// childEnv is env and what a program needs to run.
func childEnv(env []string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.TempDir(), "TMPDIR=" + os.TempDir()}, env...)
}

// stop ends the process, in order if it lets itself be asked. Its exit status is
// part of the result.
func (c *child) stop() error {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may be gone, which exited shows
	_ = c.stdin.Close()
	timer := time.NewTimer(childStop)
	defer timer.Stop()
	select {
	case <-c.exited:
	case <-timer.C:
		_ = c.cmd.Process.Kill()
		<-c.exited
		return fmt.Errorf("the %s didn't end within %s of SIGTERM and was killed:\n%s", c.name, childStop, c.output.tail())
	}
	if c.status != nil {
		return fmt.Errorf("the %s ended with %w:\n%s", c.name, c.status, c.output.tail())
	}
	return nil
}

// kill ends the process as a crash would.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may be gone
	_ = c.stdin.Close()
	<-c.exited
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// get asks the process for a path and hands the answer's body to read.
func (c *child) get(ctx context.Context, path string, read func(io.Reader) error) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.addr+path, http.NoBody)
	if err != nil {
		return fmt.Errorf("asking the %s: %w", c.name, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("asking the %s: %w\n%s", c.name, err, c.output.tail())
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("asking the %s for %s: %s", c.name, path, response.Status)
	}
	return read(response.Body)
}

// output keeps the end of what a process prints and finds its address in it.
type output struct {
	addr chan string // capacity 1

	mu    sync.Mutex
	text  []byte
	line  []byte
	found bool
}

func newOutput() *output { return &output{addr: make(chan string, 1)} }

// Write takes a piece of output; it never fails.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, p...)
	if excess := len(o.text) - tailBytes; excess > 0 {
		o.text = append(o.text[:0], o.text[excess:]...)
	}
	for rest := p; !o.found; {
		before, after, complete := bytes.Cut(rest, []byte("\n"))
		o.line = append(o.line, before...)
		if !complete {
			break
		}
		o.scan()
		o.line, rest = o.line[:0], after
	}
	return len(p), nil
}

func (o *output) scan() {
	var line struct {
		Addr string `json:"addr"`
	}
	if json.Unmarshal(o.line, &line) == nil && line.Addr != "" {
		o.found = true
		o.addr <- line.Addr
	}
}

func (o *output) tail() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.TrimSpace(string(o.text))
}
