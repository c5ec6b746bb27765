package firstminutes_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	soon = time.Minute
	// patience is for what starts a Postgres on a busy machine.
	patience = 90 * time.Second
	// compiling is for what may compile everything first.
	compiling = 30 * time.Minute
)

// program is a running process under test.
type program struct {
	cmd    *exec.Cmd
	out    *output
	mark   string // in the environment of all that it starts
	exited chan struct{}
}

// output collects what a process writes.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// launch starts a program in a process group of its own. Whatever the test does, none of its processes is left.
func launch(t *testing.T, change func(*exec.Cmd), args ...string) *program {
	t.Helper()
	p := &program{out: &output{}, exited: make(chan struct{}), mark: "FIRSTMINUTES_TEST=" + t.Name() + strconv.FormatInt(time.Now().UnixNano(), 36)}
	p.cmd = exec.Command(args[0], args[1:]...)
	p.cmd.Dir = t.TempDir()
	p.cmd.Env = append(environ(), p.mark)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	p.cmd.WaitDelay = time.Second // should something keep the output open
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if change != nil {
		change(p.cmd)
	}
	require.NoError(t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.signal(syscall.SIGKILL)
		<-p.exited
		for _, pid := range p.processes() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if t.Failed() {
			t.Logf("output of %q:\n%s", args, p.out)
		}
	})
	return p
}

// environ is ours without what would configure the programs or a client of Postgres.
func environ() []string {
	var env []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		switch {
		case name == "PORT", name == "DATABASE_URL", strings.HasPrefix(name, "PG"):
		case strings.HasPrefix(name, "SCHED_") && name != "SCHED_PG_BIN":
		default:
			env = append(env, kv)
		}
	}
	return env
}

func (p *program) signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

// press is what a key of the terminal does: a signal to the foreground process group.
func (p *program) press(sig syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, sig) }

func (p *program) await(t *testing.T, text string) {
	t.Helper()
	p.awaitWithin(t, patience, text)
}

func (p *program) awaitWithin(t *testing.T, limit time.Duration, text string) {
	t.Helper()
	require.Eventually(t, func() bool {
		select {
		case <-p.exited:
			return true
		default:
			return strings.Contains(p.out.String(), text)
		}
	}, limit, 20*time.Millisecond)
	require.Contains(t, p.out.String(), text)
}

// exit waits for the program's end and returns its exit code, as a shell has it.
func (p *program) exit(t *testing.T) int {
	t.Helper()
	select {
	case <-p.exited:
	case <-time.After(patience):
		require.FailNow(t, "the program doesn't end")
	}
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// processes lists what the program started and itself, by the mark in their environment. Empty where /proc can't tell.
func (p *program) processes() []int {
	paths, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil
	}
	var pids []int
	for _, path := range paths {
		env, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(env, []byte(p.mark+"\x00")) {
			continue // a zombie has none
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (p *program) requireNothingLeft(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return len(p.processes()) == 0 }, soon, 20*time.Millisecond, "processes are left")
}

// requireTree makes sure that what is to end is seen: it names the programs that run.
func (p *program) requireTree(t *testing.T, names ...string) {
	t.Helper()
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		return
	}
	// One that was forked a moment ago has its parent's name until it executes.
	for _, name := range names {
		require.Eventually(t, func() bool { return p.runs(name) }, soon, 20*time.Millisecond, "%s is none of the processes that run", name)
	}
}

// runs tells whether one of the processes has that name.
func (p *program) runs(name string) bool {
	return slices.ContainsFunc(p.processes(), func(pid int) bool {
		comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		return err == nil && strings.TrimSpace(string(comm)) == name
	})
}

func awaitFile(t *testing.T, path string) string {
	t.Helper()
	var text []byte
	require.Eventually(t, func() bool {
		var err error
		text, err = os.ReadFile(path)
		return err == nil && bytes.HasSuffix(text, []byte("\n"))
	}, patience, 10*time.Millisecond, path)
	return strings.TrimSpace(string(text))
}

// dataDir is one that Postgres can enter, whatever its account.
func dataDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, openToAll(dir))
	require.NoError(t, openToAll(filepath.Dir(dir)))
	return filepath.Join(dir, "data")
}
