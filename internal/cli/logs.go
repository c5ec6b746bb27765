package cli

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/sched-sidecar/sched/internal/operator"
)

const defaultLogLimit = 50

// logOptions are the flags of commands that show a log.
type logOptions struct {
	operateOptions

	filter       operator.LogFilter
	since, until momentValue
	limit        int
}

func (o *logOptions) add(cmd *cobra.Command) {
	o.operateOptions.add(cmd)
	fs := cmd.Flags()
	fs.Var(&o.since, "since", "not before this time, or so long ago (2h)")
	fs.Var(&o.until, "until", "before this time, or so long ago")
	fs.IntVar(&o.limit, "limit", defaultLogLimit, "at most so many, the latest")
}

// resolve fills in the times of the filter.
func (o *logOptions) resolve(ctx context.Context, op *operator.Operator) error {
	if err := checkLimit(o.limit); err != nil {
		return err
	}
	now, err := op.Now(ctx)
	if err != nil {
		return err
	}
	o.filter.Since, o.filter.Until = o.since.at(now), o.until.at(now)

	return nil
}

func decisionsCommand(environ []string) *cobra.Command {
	var o logOptions
	cmd := &cobra.Command{
		Use:   "decisions",
		Short: "Show what sched decided by itself, and why",
		Long: `Shows what sched decided by itself, the latest first: assignments, levels of pressure,
health, evictions, steps of canaries, timed pauses, queues that nobody can serve. With
--json each line is a row of sched.decisions, with the measures that it was made from.`,
		Args: noArgs,
	}
	o.add(cmd)
	cmd.Flags().StringVar(&o.filter.Subject, "subject", "", "only about this queue, worker or kind, or fleet")
	cmd.Flags().StringVar(&o.filter.What, "what", "", "only this kind of decision: assignment, pressure, health, …")
	cmd.RunE = o.run(environ, func(ctx context.Context, op *operator.Operator, s *screen, _ []string) error {
		if err := o.resolve(ctx, op); err != nil {
			return err
		}
		list, err := op.Decisions(ctx, o.filter, o.limit)
		if err != nil {
			return err
		}
		if s.json {
			return objects(s, list, func(d operator.Decision) json.RawMessage { return d.JSON })
		}
		if len(list) == 0 {
			s.note("no such decision")

			return nil
		}
		t := table{columns: []column{
			{title: "AT"},
			{title: "WHAT"},
			{title: "SUBJECT", flexible: true},
			{title: "FROM", flexible: true, optional: true},
			{title: "TO", flexible: true, optional: true},
			{title: "REASON", flexible: true},
			{title: "BY", spare: true},
		}}
		for _, d := range list {
			t.add(nil, localTime(d.At), d.What, d.Subject, d.From, d.To, d.Reason, d.Who)
		}

		return t.write(s.out, s.width, s.color)
	})

	return cmd
}

func actionsCommand(environ []string) *cobra.Command {
	var o logOptions
	cmd := &cobra.Command{
		Use:   "actions",
		Short: "Show who intervened",
		Long: `Shows who intervened, the latest first: pauses, changed limits, settings and kinds, cancels,
retries, drains, by whatever means. With --json each line is a row of
sched.operator_actions.`,
		Args: noArgs,
	}
	o.add(cmd)
	fs := cmd.Flags()
	fs.StringVar(&o.filter.Action, "action", "", "only insert, update, delete, pause, resume, cancel, retry or drain")
	fs.StringVar(&o.filter.ObjectType, "type", "", "only on a setting, kind, queue, canary, task or worker")
	fs.StringVar(&o.filter.Object, "object", "", "only on the one with this name or id")
	fs.StringVar(&o.filter.User, "user", "", "only by this login role")
	oneOf(cmd, "action", []string{"insert", "update", "delete", "pause", "resume", "cancel", "retry", "drain"})
	oneOf(cmd, "type", []string{"setting", "kind", "queue", "canary", "task", "worker"})
	cmd.RunE = o.run(environ, func(ctx context.Context, op *operator.Operator, s *screen, _ []string) error {
		if err := o.resolve(ctx, op); err != nil {
			return err
		}
		list, err := op.Interventions(ctx, o.filter, o.limit)
		if err != nil {
			return err
		}
		if s.json {
			return objects(s, list, func(i operator.Intervention) json.RawMessage { return i.JSON })
		}
		if len(list) == 0 {
			s.note("no such intervention")

			return nil
		}
		t := table{columns: []column{
			{title: "AT"},
			{title: "WHO", flexible: true},
			{title: "ACTION"},
			{title: "TYPE"},
			{title: "OBJECT", flexible: true},
			{title: "BEFORE", flexible: true, optional: true},
			{title: "AFTER", flexible: true, optional: true},
		}}
		for _, i := range list {
			who := i.User
			if i.Application != "" {
				who += " (" + i.Application + ")"
			}
			t.add(nil, localTime(i.At), who, i.Action, i.ObjectType, i.Object, valuesText(i.Before), valuesText(i.After))
		}

		return t.write(s.out, s.width, s.color)
	})

	return cmd
}

// valuesText shows a JSON object, if there is one, as key=value.
func valuesText(object json.RawMessage) string {
	if len(object) == 0 || string(object) == "null" {
		return ""
	}

	return pairs(object)
}
