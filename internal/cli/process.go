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
	err := root.ExecuteContext(ctx)
	if again := stop(); again != nil {
		if err != nil {
			fmt.Fprintf(p.Stderr, "%s: %v\n", root.Name(), err)
		}

		return again.exitCode()
	}
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

// hurryLimit is how long a command that hurries may still take.
const hurryLimit = 3 * time.Second

// watchSignals returns a context that the first signal ends, with a cause that
// names it. The second one exits: at once, or after a moment for a command that
// has something to hand back (see [hurry]). stop says that the command has ended,
// and returns the second signal if there was one.
func (p Process) watchSignals(name string) (ctx context.Context, stop func() (again *signalError)) {
	last := &lastResort{}
	ctx, cancel := context.WithCancelCause(context.WithValue(context.Background(), lastResortKey{}, last))
	ended, watched := make(chan struct{}), make(chan struct{})
	var again *signalError // read after watched is closed

	go func() {
		defer close(watched)
		var first os.Signal
		var at time.Time
		for {
			select {
			case <-ended:
				return
			case sig := <-p.Signals:
				err := &signalError{sig}
				switch {
				case first == nil:
					first, at = sig, time.Now()
					cancel(err)

					continue
				case first == sig && time.Since(at) < sameSignal:
					continue
				}
				again = err
				if last.hurry(ended) {
					return
				}
				last.run()
				fmt.Fprintf(p.Stderr, "%s: %v again: exiting at once\n", name, err)
				p.Exit(err.exitCode())

				return
			}
		}
	}()

	return ctx, func() *signalError {
		close(ended)
		<-watched
		cancel(nil)

		return again
	}
}

// lastResort is what is done when the second signal comes.
type lastResort struct {
	mu      sync.Mutex
	do      func()
	hurried chan struct{} // nil: nobody asked
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

// hurry returns a channel that a second signal closes. The command that asked for
// it is then given a moment to end by itself.
func hurry(ctx context.Context) <-chan struct{} {
	last, ok := ctx.Value(lastResortKey{}).(*lastResort)
	if !ok {
		return nil
	}
	last.mu.Lock()
	defer last.mu.Unlock()
	if last.hurried == nil {
		last.hurried = make(chan struct{})
	}

	return last.hurried
}

// hurry has the command hurry, and reports whether it ended in time.
func (l *lastResort) hurry(ended <-chan struct{}) bool {
	l.mu.Lock()
	hurried := l.hurried
	l.mu.Unlock()
	if hurried == nil {
		return false
	}
	close(hurried)
	select {
	case <-ended:
		return true
	case <-time.After(hurryLimit):
		return false
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
