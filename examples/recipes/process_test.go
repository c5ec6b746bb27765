package recipes_test

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// process is a shop or a sidecar.
type process struct {
	cmd  *exec.Cmd
	log  *logBuffer
	done chan struct{} // closed when it has ended
}

// start runs a command with variables added to a clean environment. It ends with the test at the latest.
func start(t *testing.T, cmd *exec.Cmd, variables ...string) *process {
	t.Helper()
	p := &process{cmd: cmd, log: &logBuffer{}, done: make(chan struct{})}
	cmd.Env = append(cleanEnviron(), variables...)
	cmd.Stdout, cmd.Stderr = p.log, p.log
	cmd.SysProcAttr = childAttr()
	// A child of the child may hold the output open.
	cmd.WaitDelay = time.Second
	require.NoError(t, cmd.Start())
	go func() {
		_ = cmd.Wait() // what it says is in ProcessState too
		close(p.done)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("output of %s:\n%s", strings.Join(cmd.Args, " "), p.log)
		}
	})
	return p
}

// cleanEnviron is the environment without what configures sched or a client of Postgres.
func cleanEnviron() []string {
	var env []string
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, "SCHED_") && !strings.HasPrefix(name, "PG") && !strings.HasSuffix(name, "DATABASE_URL") {
			env = append(env, variable)
		}
	}
	return env
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// kill ends the process and its children, and waits for it.
func (p *process) kill() {
	if !p.ended() {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // its group; fails only if it has ended by now
	}
	<-p.done
}

// stop asks the process to end, which it must do well.
func (p *process) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	timer := time.NewTimer(soon)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		require.Fail(t, "the process doesn't end on SIGTERM")
	}
	require.Zero(t, p.cmd.ProcessState.ExitCode(), "its end was not orderly")
}

// logBuffer keeps what a process prints.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
