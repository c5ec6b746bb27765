package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sched-sidecar/sched/internal/app"
)

// Process is what a command gets from the process it runs in.
type Process struct {
	Args    []string // without the program's name
	Environ []string // as of os.Environ
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	Signals <-chan os.Signal // SIGINT and SIGTERM; nil: none come
	Exit    func(code int)   // ends the process at once, for the second signal
}

// ThisProcess returns the surroundings of the running process. From here on
// SIGINT and SIGTERM come through Signals.
func ThisProcess(exit func(code int)) Process {
	signals := make(chan os.Signal, 2) // one to stop, one to stop at once
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)

	return Process{
		Args: os.Args[1:], Environ: os.Environ(),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Signals: signals, Exit: exit,
	}
}

// execute runs a command and returns the exit code.
func (p Process) execute(root *cobra.Command) int {
	root.SetArgs(append([]string{}, p.Args...)) // nil would mean os.Args
	root.SetIn(p.Stdin)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(flagError)

	ctx, stop := p.watchSignals(root.Name())
	defer stop()
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}

	var child *app.ExitError
	if errors.As(err, &child) {
		if child.Err != nil {
			fmt.Fprintf(p.Stderr, "%s: %v\n", root.Name(), child.Err)
		}

		return child.Code
	}
	var cause *signalError
	if errors.As(context.Cause(ctx), &cause) && errors.Is(err, context.Canceled) {
		fmt.Fprintf(p.Stderr, "%s: stopped before it was done: %v\n", root.Name(), cause)

		return cause.exitCode()
	}
	fmt.Fprintf(p.Stderr, "%s: %v\n", root.Name(), err)

	return exitCode(err)
}

// sameSignal is how soon a second signal of one kind is still the first: a Ctrl-C
// reaches a program both from the terminal and from npm or the like, which hands
// on its own.
const sameSignal = 250 * time.Millisecond

// watchSignals returns a context that the first signal ends, with a cause that
// names it; the second one exits. stop returns when nobody watches any more.
func (p Process) watchSignals(name string) (ctx context.Context, stop func()) {
	last := &lastResort{}
	ctx, cancel := context.WithCancelCause(context.WithValue(context.Background(), lastResortKey{}, last))
	done, watched := make(chan struct{}), make(chan struct{})

	go func() {
		defer close(watched)
		var first os.Signal
		var at time.Time
		for {
			select {
			case <-done:
				return
			case sig := <-p.Signals:
				err := &signalError{sig}
				if first == sig && time.Since(at) < sameSignal {
					continue
				}
				if first != nil {
					last.run()
					fmt.Fprintf(p.Stderr, "%s: %v again: exiting at once\n", name, err)
					p.Exit(err.exitCode())

					return
				}
				first, at = sig, time.Now()
				cancel(err)
			}
		}
	}()

	return ctx, func() {
		close(done)
		<-watched
		cancel(nil)
	}
}

// lastResort is what must be done before the second signal exits.
type lastResort struct {
	mu sync.Mutex
	do func()
}

type lastResortKey struct{}

// beforeExit has do called before a second signal exits. It must not wait.
func beforeExit(ctx context.Context, do func()) {
	if last, ok := ctx.Value(lastResortKey{}).(*lastResort); ok {
		last.mu.Lock()
		defer last.mu.Unlock()
		last.do = do
	}
}

func (l *lastResort) run() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.do != nil {
		l.do()
	}
}

// signalError is why a context ended.
type signalError struct {
	signal os.Signal
}

func (e *signalError) Error() string {
	switch e.signal {
	case syscall.SIGINT:
		return "got SIGINT"
	case syscall.SIGTERM:
		return "got SIGTERM"
	default:
		return "got signal " + e.signal.String()
	}
}

// exitCode is what a shell reports of a program that a signal ended.
func (e *signalError) exitCode() int {
	if number, ok := e.signal.(syscall.Signal); ok {
		return 128 + int(number)
	}

	return exitFailed
}
