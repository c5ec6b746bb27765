package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sched-sidecar/sched/internal/config"
	"github.com/sched-sidecar/sched/internal/operator"
)

// closeTimeout bounds the goodbye to the server.
const closeTimeout = 5 * time.Second

// operateOptions are the flags of every command that works on a database.
type operateOptions struct {
	dsn  string
	json bool
}

func (o *operateOptions) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.dsn, "dsn", "", "Postgres connection string (SCHED_DATABASE_URL, DATABASE_URL, PG*)")
	cmd.Flags().BoolVar(&o.json, "json", false, "print one JSON object a line, for programs")
}

// operateFunc does a command's work.
type operateFunc func(ctx context.Context, op *operator.Operator, s *screen, args []string) error

// run makes a command's RunE of its work: connected before, disconnected after.
func (o *operateOptions) run(environ []string, work operateFunc) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) (err error) {
		dsn, err := config.LoadDSN(o.dsn, environ)
		if err != nil {
			return err
		}
		ctx := cmd.Context()
		op, err := operator.Connect(ctx, dsn.Reveal())
		if err != nil {
			return err
		}
		defer func() {
			closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
			defer cancel()
			_ = op.Close(closeCtx) // all that counts was committed
		}()

		return work(ctx, op, newScreen(cmd, environ, o.json), args)
	}
}

// exactArgs wants as many arguments as it has names.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != len(names) {
			return &usageError{fmt.Errorf("%sneeds %s, got %q; see %s --help", pathBelowRoot(cmd), strings.Join(names, " "), args, cmd.CommandPath())}
		}

		return nil
	}
}

// someArgs wants at least one argument.
func someArgs(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return &usageError{fmt.Errorf("%sneeds one %s or more; see %s --help", pathBelowRoot(cmd), name, cmd.CommandPath())}
		}

		return nil
	}
}

// listGroup is a group that lists when it is given nothing: list is also what it
// does by itself.
func listGroup(use, short string, list func() *cobra.Command, others ...*cobra.Command) *cobra.Command {
	children := append([]*cobra.Command{list()}, others...)
	named := group(use, short, children...)
	cmd := list()
	cmd.Use, cmd.Short = use, short
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}

		return named.Args(cmd, args)
	}
	cmd.AddCommand(children...)

	return cmd
}

// oneOf refuses a flag's value that is not among the allowed, and completes them.
func oneOf(cmd *cobra.Command, flag string, allowed []string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
}
