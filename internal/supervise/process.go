package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// killPatience bounds the wait for processes after SIGKILL, which only the kernel can hold up.
const killPatience = 10 * time.Second

// Command is what to run.
type Command struct {
	Args []string // the program and its arguments
	Env  []string // nil: ours
	Dir  string   // empty: ours

	// Files that the command gets as they are; nil: nothing there, output is dropped. The command's end is not held up
	// by descendants that keep them open.
	Stdin, Stdout, Stderr *os.File
}

// Process is a command that was started.
type Process struct {
	cmd   *exec.Cmd
	guard *guard // nil: there's no shell
	group int
	done  chan struct{}
	exit  Exit // valid once done is closed
}

// Find says where a program is, or why it can't be started, as a [StartError].
func Find(program string) (string, error) {
	path, err := exec.LookPath(program)
	if err != nil && !errors.Is(err, exec.ErrDot) {
		var cause *exec.Error
		if errors.As(err, &cause) {
			err = cause.Err
		}
		return "", &StartError{Command: program, Err: err}
	}
	return path, nil
}

// Start starts a command. Whoever does must call [Process.Stop] in the end, also when the command has ended by itself.
func Start(command Command) (*Process, error) { return start(command, shell) }

func start(command Command, shell string) (*Process, error) {
	path, err := Find(command.Args[0])
	if err != nil {
		return nil, err
	}
	guard, err := startGuard(shell)
	if err != nil {
		return nil, err
	}
	p := &Process{guard: guard, done: make(chan struct{})}
	if guard != nil {
		p.group = guard.pid()
	}
	// No context: [Process.Stop] ends it.
	p.cmd = exec.CommandContext(context.Background(), path)
	p.cmd.Args = command.Args
	p.cmd.Env, p.cmd.Dir = command.Env, command.Dir
	// A typed nil would be taken for a file.
	if command.Stdin != nil {
		p.cmd.Stdin = command.Stdin
	}
	if command.Stdout != nil {
		p.cmd.Stdout = command.Stdout
	}
	if command.Stderr != nil {
		p.cmd.Stderr = command.Stderr
	}
	p.cmd.SysProcAttr = attr(p.group)
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		if guard != nil {
			guard.release()
		}
		return nil, &StartError{Command: command.Args[0], Err: plain(err)}
	}
	if guard == nil {
		p.group = p.cmd.Process.Pid
	} else {
		guard.watch(p.cmd.Process.Pid)
	}
	return p, nil
}

// plain is an error without the operation and the path that it names, which a [StartError] says in its own words.
func plain(err error) error {
	var cause *os.PathError
	if errors.As(err, &cause) {
		return cause.Err
	}
	return err
}

// run starts the command and waits for its end on one thread: the kernel takes the end of the thread that started a
// child for the end of its parent.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	_ = p.cmd.Wait() // what it says is in the state
	p.exit = exitOf(p.cmd.ProcessState)
	close(p.done)
}

// Pid is the command's process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the command has ended. Descendants of it may still run.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit says how the command ended. To be called once it has.
func (p *Process) Exit() Exit {
	<-p.done
	return p.exit
}

// Signal sends a signal to the command alone, as somebody would who knows its process id.
func (p *Process) Signal(sig os.Signal) {
	_ = p.cmd.Process.Signal(sig) // fails only if it has ended
}

// Stop ends the command and all of its group: it sends sig to each, and SIGKILL to what is left when ctx is done. It
// returns when they're gone, or an error that names what not even SIGKILL ended.
func (p *Process) Stop(ctx context.Context, sig syscall.Signal) error {
	if p.guard != nil || !p.gone() { // without a guard the number of a group that is gone may be another's
		p.signalGroup(sig)
	}
	if !p.awaitGone(ctx) {
		p.Kill()
		killCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killPatience)
		defer cancel()
		if !p.awaitGone(killCtx) {
			return fmt.Errorf("process %d or a descendant of it is still there after SIGKILL", p.Pid())
		}
	}
	if p.guard != nil {
		p.guard.release()
	}
	return nil
}

// Kill sends SIGKILL to all of the group and waits for nothing.
func (p *Process) Kill() { p.signalGroup(syscall.SIGKILL) }

func (p *Process) signalGroup(sig syscall.Signal) {
	_ = syscall.Kill(-p.group, sig) // fails only if they have ended
}

// awaitGone waits for the command, then for what else is in its group; it reports false when ctx was done first.
func (p *Process) awaitGone(ctx context.Context) bool {
	select {
	case <-p.done:
	case <-ctx.Done():
		return false
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !p.gone() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// gone reports whether neither the command nor anything else in its group runs.
func (p *Process) gone() bool {
	select {
	case <-p.done:
	default:
		return false
	}
	guardPid := 0
	if p.guard != nil {
		guardPid = p.guard.pid()
	}
	return len(members(p.group, guardPid)) == 0
}
