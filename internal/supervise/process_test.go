package supervise

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// soon is ample time for what should happen at once.
const soon = time.Minute

// script starts a shell script that finds $dir in its environment.
func script(t *testing.T, text string) (p *Process, dir string) {
	t.Helper()
	dir = t.TempDir()
	p, err := Start(Command{Args: []string{shell, "-c", text}, Env: append(os.Environ(), "dir="+dir), Stderr: os.Stderr})
	require.NoError(t, err)
	t.Cleanup(func() { stop(t, p, 0) })
	return p, dir
}

func stop(t *testing.T, p *Process, grace time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	require.NoError(t, p.Stop(ctx, syscall.SIGTERM))
}

func awaitFile(t *testing.T, path string) string {
	t.Helper()
	var content string
	require.Eventually(t, func() bool {
		data, err := os.ReadFile(path)
		content = strings.TrimSpace(string(data))
		return err == nil && strings.HasSuffix(string(data), "\n")
	}, soon, 5*time.Millisecond, path)
	return content
}

func awaitPid(t *testing.T, path string) int {
	t.Helper()
	pid, err := strconv.Atoi(awaitFile(t, path))
	require.NoError(t, err)
	return pid
}

func runs(pid int) bool {
	for _, p := range membersByProc() {
		if p.pid == pid {
			return p.state != 'Z' && p.state != 'X'
		}
	}
	return false
}

func awaitEnd(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		require.Eventually(t, func() bool { return !runs(pid) }, soon, 10*time.Millisecond, "process %d", pid)
	}
}

func TestExit(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		script string
		code   int
		words  string
	}{
		"success":   {"exit 0", 0, "exit status 0"},
		"failure":   {"exit 3", 3, "exit status 3"},
		"killed":    {"kill -KILL $$", 137, "signal 9 (killed)"},
		"segfault":  {"kill -SEGV $$", 139, "signal 11 (segmentation fault)"},
		"its child": {"sh -c 'kill -TERM $$'; exit $?", 143, "exit status 143"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _ := script(t, tt.script)
			require.Equal(t, tt.code, p.Exit().Code())
			require.Equal(t, tt.words, p.Exit().String())
			stop(t, p, soon)
		})
	}
}

func TestCommandThatCannotBeStarted(t *testing.T) {
	t.Parallel()
	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, []byte("no program\n"), 0o600))
	binary := filepath.Join(t.TempDir(), "binary")
	require.NoError(t, os.WriteFile(binary, []byte{0, 1, 2}, 0o700))
	tests := map[string]struct {
		program string
		code    int
		words   string
	}{
		"unknown":        {"no-such-program-anywhere", 127, `the command "no-such-program-anywhere" is not in PATH: install it, or give its path`},
		"missing":        {"./no/such/file", 127, "there is no command ./no/such/file"},
		"not executable": {text, 126, "the command " + text + " can't be started: permission denied"},
		"no program":     {binary, 126, "the command " + binary + " can't be started: exec format error"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Start(Command{Args: []string{tt.program}})
			var cause *StartError
			require.ErrorAs(t, err, &cause)
			require.Equal(t, tt.code, cause.Code())
			require.EqualError(t, err, tt.words)
		})
	}
}

func TestCommandGetsWhatItIsGiven(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := filepath.Join(dir, "in")
	require.NoError(t, os.WriteFile(in, []byte("from stdin\n"), 0o600))
	stdin, err := os.Open(in)
	require.NoError(t, err)
	defer func() { _ = stdin.Close() }()
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer func() { _ = read.Close() }()

	p, err := Start(Command{
		Args: []string{shell, "-c", `pwd; echo "$0 $word"; cat; exec 2>&1; echo no stderr >&2`, "zero"}, Dir: dir,
		Env: []string{"word=given", "PATH=" + os.Getenv("PATH")}, Stdin: stdin, Stdout: write,
	})
	require.NoError(t, err)
	require.NoError(t, write.Close())
	require.Equal(t, 0, p.Exit().Code())
	out := make([]byte, 1024)
	n, err := read.Read(out)
	require.NoError(t, err)
	require.Equal(t, dir+"\nzero given\nfrom stdin\nno stderr\n", string(out[:n]))
	stop(t, p, soon)
}

func TestStopAsksFirst(t *testing.T) {
	t.Parallel()
	p, dir := script(t, `trap 'echo bye >$dir/bye; exit 7' TERM; echo $$ >$dir/up; while :; do sleep 0.05; done`)
	require.Equal(t, p.Pid(), awaitPid(t, filepath.Join(dir, "up")))
	stop(t, p, soon)
	require.Equal(t, "bye", awaitFile(t, filepath.Join(dir, "bye")))
	require.Equal(t, 7, p.Exit().Code())
}

func TestStopKillsTheStubborn(t *testing.T) {
	t.Parallel()
	p, dir := script(t, `trap '' TERM; echo $$ >$dir/up; while :; do sleep 0.05; done`)
	awaitPid(t, filepath.Join(dir, "up"))
	stop(t, p, 50*time.Millisecond)
	require.Equal(t, 137, p.Exit().Code())
}

// A shell dies of SIGTERM at once; what it started gets the time to end in order.
func TestStopWaitsForDescendants(t *testing.T) {
	t.Parallel()
	p, dir := script(t, `sh -c 'trap "sleep 0.3; echo bye >$dir/bye; exit" TERM; echo $$ >$dir/up; while :; do sleep 0.05; done'; :`)
	child := awaitPid(t, filepath.Join(dir, "up"))
	require.NotEqual(t, p.Pid(), child)
	stop(t, p, soon)
	require.Equal(t, "bye", awaitFile(t, filepath.Join(dir, "bye")))
	require.False(t, runs(child))
}

func TestNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	p, dir := script(t, `sh -c 'trap "" TERM; echo $$ >$dir/up; while :; do sleep 0.05; done' & while [ ! -s $dir/up ]; do sleep 0.01; done; exit 5`)
	require.Equal(t, 5, p.Exit().Code())
	left := awaitPid(t, filepath.Join(dir, "up"))
	require.True(t, runs(left), "a descendant may outlive the command, until Stop")
	stop(t, p, 50*time.Millisecond)
	require.False(t, runs(left))
	require.False(t, runs(p.guard.pid()))
}

func TestSignalIsForTheCommandAlone(t *testing.T) {
	t.Parallel()
	p, dir := script(t, `trap 'echo usr1 >$dir/usr1' USR1; sleep 60 & echo $! >$dir/child; while :; do sleep 0.05; done`)
	child := awaitPid(t, filepath.Join(dir, "child"))
	p.Signal(syscall.SIGUSR1)
	require.Equal(t, "usr1", awaitFile(t, filepath.Join(dir, "usr1")))
	require.True(t, runs(child), "SIGUSR1 would have ended it")
	stop(t, p, soon)
	require.False(t, runs(child))
}

func TestKillWaitsForNothing(t *testing.T) {
	t.Parallel()
	p, dir := script(t, `trap '' TERM; echo $$ >$dir/up; while :; do sleep 0.05; done`)
	awaitPid(t, filepath.Join(dir, "up"))
	p.Kill()
	require.Equal(t, 137, p.Exit().Code())
	stop(t, p, soon)
}
