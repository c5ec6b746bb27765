package supervise

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
)

// Exit is how a command ended. The zero value is success.
type Exit struct {
	status int
	signal syscall.Signal // 0: it exited by itself
}

func exitOf(state *os.ProcessState) Exit {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return Exit{signal: status.Signal()}
	}
	return Exit{status: state.ExitCode()}
}

// Code is the exit code as a shell reports it: 128 and the signal's number for a command that a signal ended.
func (e Exit) Code() int {
	if e.signal != 0 {
		return 128 + int(e.signal)
	}
	return e.status
}

// String says it in words.
func (e Exit) String() string {
	if e.signal != 0 {
		return fmt.Sprintf("signal %d (%s)", int(e.signal), e.signal)
	}
	return fmt.Sprintf("exit status %d", e.status)
}

// Exit codes of a command that can't be started, as shells have them.
const (
	codeNotExecutable = 126
	codeNotFound      = 127
)

// StartError is returned by [Find] and [Start] for a command that can't be started.
type StartError struct {
	Command string
	Err     error
}

// Error says what to look at.
func (e *StartError) Error() string {
	switch {
	case errors.Is(e.Err, exec.ErrNotFound):
		return fmt.Sprintf("the command %q is not in PATH: install it, or give its path", e.Command)
	case errors.Is(e.Err, fs.ErrNotExist):
		return fmt.Sprintf("there is no command %s", e.Command)
	default:
		return fmt.Sprintf("the command %s can't be started: %v", e.Command, e.Err)
	}
}

func (e *StartError) Unwrap() error { return e.Err }

// Code is the exit code as a shell reports it: 127 for a command that isn't there, else 126.
func (e *StartError) Code() int {
	if errors.Is(e.Err, exec.ErrNotFound) || errors.Is(e.Err, fs.ErrNotExist) {
		return codeNotFound
	}
	return codeNotExecutable
}
