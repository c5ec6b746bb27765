package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sched-sidecar/sched/internal/config"
	"github.com/sched-sidecar/sched/internal/operator"
	"github.com/sched-sidecar/sched/jobs"
)

// Exit codes.
const (
	exitOK       = 0
	exitFailed   = 1
	exitUsage    = 2
	exitNotFound = 3
)

const exitCodesHelp = `Exit codes: 0 done; 1 failed; 2 wrong usage or configuration;
130 or 143 ended by SIGINT or SIGTERM before it was done.`

const schedExitCodesHelp = `Exit codes: 0 done; 1 failed; 2 wrong usage or configuration; 3 there is no such
task, worker, queue or batch; 130 or 143 ended by SIGINT or SIGTERM before it was done.`

// usageError is a command line that can't be understood.
type usageError struct {
	err error
}

func (e *usageError) Error() string { return e.err.Error() }

func (e *usageError) Unwrap() error { return e.err }

func exitCode(err error) int {
	var usage *usageError
	var invalid *config.InvalidError
	var line *operator.LineError
	switch {
	case errors.As(err, &line): // the data's fault, not the command line's
		return exitFailed
	case errors.As(err, &usage), errors.As(err, &invalid), errors.Is(err, operator.ErrInvalid):
		return exitUsage
	case errors.Is(err, operator.ErrNotFound), errors.Is(err, jobs.ErrTaskNotFound):
		return exitNotFound
	}

	return exitFailed
}

// flagError says which flag was meant when there is none of that name.
func flagError(cmd *cobra.Command, err error) error {
	advice := fmt.Sprintf("; see %s --help", cmd.CommandPath())
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if n := config.Nearest(unknown.GetSpecifiedName(), names); n != "" {
			advice = fmt.Sprintf("; did you mean --%s?", n)
		}
	}

	return &usageError{fmt.Errorf("%w%s", err, advice)}
}

// group is a command that only holds others. Alone it is an error: a script
// that forgot the rest must not go on as if something had been done.
func group(use, short string, children ...*cobra.Command) *cobra.Command {
	var names []string
	for _, c := range children {
		names = append(names, c.Name())
	}
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return &usageError{fmt.Errorf("%sneeds a command: %s", pathBelowRoot(cmd), strings.Join(names, ", "))}
			}
			advice := "it has: " + strings.Join(names, ", ")
			if n := config.Nearest(args[0], names); n != "" {
				advice = "did you mean " + n + "?"
			}

			return &usageError{fmt.Errorf("%sthere is no command %q; %s", pathBelowRoot(cmd), args[0], advice)}
		},
		RunE: func(*cobra.Command, []string) error { return nil }, // Args lets nothing through

		DisableFlagsInUseLine: true,
	}
	cmd.AddCommand(children...)

	return cmd
}

// pathBelowRoot names a command, and a space, for an error that begins with the
// program's name anyway.
func pathBelowRoot(cmd *cobra.Command) string {
	path := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name())
	if path == "" {
		return ""
	}

	return strings.TrimPrefix(path, " ") + ": "
}

// noArgs refuses arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return &usageError{fmt.Errorf("%stakes no arguments, got %q; see %s --help", pathBelowRoot(cmd), args, cmd.CommandPath())}
	}

	return nil
}

// notBoth refuses two flags that contradict each other.
func notBoth(cmd *cobra.Command, a, b string) error {
	if cmd.Flags().Changed(a) && cmd.Flags().Changed(b) {
		return &usageError{fmt.Errorf("%s--%s and --%s contradict each other", pathBelowRoot(cmd), a, b)}
	}

	return nil
}
