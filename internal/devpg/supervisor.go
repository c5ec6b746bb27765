package devpg

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

//go:embed supervise.sh
var superviseScript string

// supervisor is the shell process that is the parent of one run of the server. It's read only when somebody asks, so it
// needs no goroutine; it isn't safe for concurrent use.
type supervisor struct {
	cmd    *exec.Cmd
	hold   *os.File // the pipe's write end: the supervisor ends the server when it closes
	out    *os.File
	lines  *bufio.Reader
	pid    int
	exited bool
	status string
}

type supervision struct {
	account  account
	postgres string
	dataDir  string
	logFile  string
	workDir  string
	grace    time.Duration
	lock     *os.File
	remove   []string
}

func supervise(run supervision) (*supervisor, error) {
	holdRead, hold, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, outWrite, err := os.Pipe()
	if err != nil {
		closeAll(holdRead, hold)
		return nil, err
	}
	args := []string{
		"-c", superviseScript, "devpg-supervisor",
		run.postgres, run.dataDir, run.logFile, strconv.Itoa(int(run.grace.Seconds())),
	}
	// No context: the server's life is Stop's business.
	cmd := exec.CommandContext(context.Background(), "/bin/sh", append(args, run.remove...)...)
	run.account.apply(cmd)
	cmd.Dir = run.workDir
	cmd.Stdout = outWrite
	cmd.ExtraFiles = []*os.File{holdRead, run.lock}
	err = cmd.Start()
	// The supervisor has its own copies now; ours of its ends would hide from either side that the other is gone.
	closeAll(holdRead, outWrite)
	if err != nil {
		closeAll(hold, out)
		return nil, fmt.Errorf("starting /bin/sh as %s: %w", run.account.name, err)
	}
	s := &supervisor{cmd: cmd, hold: hold, out: out, lines: bufio.NewReader(out)}
	word, arg, err := s.next(10 * time.Second)
	if err == nil && word == "started" {
		s.pid, err = strconv.Atoi(arg)
	}
	if err != nil || s.pid == 0 {
		s.release()
		return nil, fmt.Errorf("the supervisor of the server said %q %q: %w", word, arg, errors.Join(err, errSupervisor))
	}
	return s, nil
}

var errSupervisor = errors.New("it could not start the server")

func (s *supervisor) next(timeout time.Duration) (word, arg string, err error) {
	// A deadline that has passed already would hide a line that is there.
	if err := s.out.SetReadDeadline(time.Now().Add(max(timeout, 5*time.Millisecond))); err != nil {
		return "", "", err
	}
	line, err := s.lines.ReadString('\n')
	if err != nil {
		return "", "", err
	}
	word, arg, _ = strings.Cut(strings.TrimSpace(line), " ")
	return word, arg, nil
}

// awaitExit reports whether the server has ended, after waiting for it no longer than timeout.
func (s *supervisor) awaitExit(timeout time.Duration) bool {
	if s.exited {
		return true
	}
	word, arg, err := s.next(timeout)
	switch {
	case err == nil && word == "exited":
		s.exited, s.status = true, arg
	case errors.Is(err, io.EOF):
		// Somebody killed the supervisor; the server, if it still runs, is nobody's child that we could wait for.
		s.exited, s.status = awaitGone([]int{s.pid}, timeout) == nil, "unknown"
	}
	return s.exited
}

// stop ends the server: in order when grace is positive, then at once, then by force.
func (s *supervisor) stop(grace time.Duration) error {
	steps := []struct {
		signal syscall.Signal
		wait   time.Duration
	}{
		{syscall.SIGINT, grace},             // fast: disconnect clients, write a checkpoint
		{syscall.SIGQUIT, 8 * time.Second},  // immediate: Postgres itself kills slow children after 5 s
		{syscall.SIGKILL, 10 * time.Second}, // its children notice and end
	}
	for _, step := range steps {
		if step.wait <= 0 {
			continue
		}
		if s.awaitExit(0) {
			return nil
		}
		if err := syscall.Kill(s.pid, step.signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("signalling server process %d: %w", s.pid, err)
		}
		if s.awaitExit(step.wait) {
			return nil
		}
	}
	return fmt.Errorf("server process %d is still there after SIGKILL", s.pid)
}

// release dismisses the supervisor after the server has ended, or lets it end the server when that is still running.
func (s *supervisor) release() {
	defer closeAll(s.out)
	defer closeAll(s.hold)
	if !s.exited {
		// Waiting could take for ever, if not even SIGKILL ends the server.
		_ = s.cmd.Process.Release()
		return
	}
	_, _ = s.hold.WriteString("done\n") // only fails when the supervisor is gone already, which is what we want
	_ = s.cmd.Wait()                    // its exit status says nothing that "exited" didn't
}

// closeAll closes pipes, to which that cannot fail.
func closeAll(files ...*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
