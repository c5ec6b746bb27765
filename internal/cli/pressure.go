package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sched-sidecar/sched/internal/operator"
)

func pressureCommand(environ []string) *cobra.Command {
	var o operateOptions
	var all bool
	var limit int
	cmd := &cobra.Command{
		Use:   "pressure [QUEUE]...",
		Short: "Show how close the fleet and its queues are to their limits",
		Long: `Shows the pressure of the fleet and of the queues that are not green; with --all of every
queue, with names of those alone and of the ones derived from them. PENDING are tasks
available and due, counted up to what counts as full; LOAD is the mean of running ÷
ceiling of the workers. The leader looks each second; while nobody leads all is green.
Exit code 3 if there is no queue of a name.`,
	}
	o.add(cmd)
	cmd.Flags().BoolVarP(&all, "all", "a", false, "every queue")
	cmd.Flags().IntVar(&limit, "limit", maxRows, "at most so many queues")
	cmd.RunE = o.run(environ, func(ctx context.Context, op *operator.Operator, s *screen, args []string) error {
		if err := checkLimit(limit); err != nil {
			return err
		}
		if len(args) == 0 {
			args = nil
		}
		list, err := op.Pressure(ctx, args, all, limit)
		if err != nil {
			return err
		}
		if s.json {
			return objects(s, list, func(p operator.Pressure) json.RawMessage { return p.JSON })
		}
		if len(list) > 0 && !list[0].Led {
			s.note("%s", unled(list[0]))
		}

		return showPressure(s, list)
	})

	return cmd
}

// unled says that what is shown is not of now.
func unled(p operator.Pressure) string {
	if p.ComputedAt == nil {
		return "no sidecar has led this fleet yet: nothing was measured"
	}

	return fmt.Sprintf("no sidecar leads since %s (%s ago): what was measured is of then", localTime(*p.ComputedAt), span(time.Since(*p.ComputedAt)))
}

func showPressure(s *screen, list []operator.Pressure) error {
	t := table{columns: []column{
		{title: "OF", flexible: true},
		{title: "PRESSURE"},
		{title: "PENDING", right: true},
		{title: "LOAD", right: true},
		{title: "WORKERS", right: true},
		{title: "REASON", flexible: true, optional: true},
	}}
	for _, p := range list {
		of := "the fleet"
		if p.Scope == "queue" {
			of = p.Name
		}
		t.add(map[int]color{1: levelColor(p.Level)}, of, p.Level, number(p.Pending)+" of "+number(p.MaxPending),
			fmt.Sprintf("%.0f %%", 100*p.Load), number(p.Workers), p.Reason)
	}

	return t.write(s.out, s.width, s.color)
}

func assignmentsCommand(environ []string) *cobra.Command {
	var o operateOptions
	var queues []string
	var worker string
	var limit int
	cmd := &cobra.Command{
		Use:   "assignments",
		Short: "List who serves which queue",
		Long: `Lists which worker serves which queue, with its weight (its share among the queue's
workers) and why: the answer of the routing layer, which the leader keeps. A queue
without any is served by every worker whose labels allow it.`,
		Args: noArgs,
	}
	o.add(cmd)
	cmd.Flags().StringArrayVar(&queues, "queue", nil, "only of this queue and those derived from it (repeatable)")
	cmd.Flags().StringVar(&worker, "worker", "", "only of the worker with this `id`")
	cmd.Flags().IntVar(&limit, "limit", maxRows, "at most so many")
	cmd.RunE = o.run(environ, func(ctx context.Context, op *operator.Operator, s *screen, _ []string) error {
		if err := checkLimit(limit); err != nil {
			return err
		}
		list, err := op.Assignments(ctx, queues, worker, limit)
		if err != nil {
			return err
		}
		if s.json {
			return objects(s, list, func(a operator.Assignment) json.RawMessage { return a.JSON })
		}
		if len(list) == 0 {
			s.note("no such assignment: every worker serves what its labels allow")

			return nil
		}
		t := table{columns: []column{
			{title: "QUEUE", flexible: true},
			{title: "WORKER"},
			{title: "HOST", flexible: true, optional: true},
			{title: "WEIGHT", right: true},
			{title: "RUNS", right: true},
			{title: "SLOTS", right: true},
			{title: "HEALTH"},
			{title: "SINCE"},
			{title: "REASON", flexible: true},
		}}
		for _, a := range list {
			t.add(map[int]color{6: healthColor(a.Health)}, a.Queue, a.WorkerID, a.Hostname, number(a.Weight), number(a.Running), number(a.Slots),
				a.Health, localTime(a.UpdatedAt), a.Reason)
		}

		return t.write(s.out, s.width, s.color)
	})

	return cmd
}

func healthColor(health string) color {
	switch health {
	case "overloaded":
		return red
	case "strained":
		return yellow
	default:
		return ""
	}
}
