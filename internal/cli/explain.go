package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/sched-sidecar/sched/internal/operator"
)

func explainCommand(environ []string) *cobra.Command {
	var o operateOptions
	cmd := &cobra.Command{
		Use:   "explain ID",
		Short: "Say why a task waits, or what became of it",
		Long: `Says in words why a task waits, or what became of it: what sched.explain says, with
times in your own zone. With --json it is one object: {"id": 7, "lines": ["…"]}. Exit
code 3 if there is no such task.`,
		Args: exactArgs("ID"),
	}
	o.add(cmd)
	cmd.RunE = o.run(environ, func(ctx context.Context, op *operator.Operator, s *screen, args []string) error {
		ids, err := parseIDs(args)
		if err != nil {
			return err
		}
		lines, err := op.Explain(ctx, ids[0])
		if err != nil {
			return err
		}
		if s.json {
			return s.object(struct {
				ID    int64    `json:"id"`
				Lines []string `json:"lines"`
			}{ids[0], lines})
		}
		for _, line := range lines {
			if err := s.say("%s", clean(line)); err != nil {
				return err
			}
		}

		return nil
	})

	return cmd
}
