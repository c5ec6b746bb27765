package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sched-sidecar/sched/internal/operator"
)

// maxRows bounds lists that aren't read page by page.
const maxRows = 10_000

func workersCommand(environ []string) *cobra.Command {
	return listGroup("workers", "List workers, or drain one",
		func() *cobra.Command { return workersListCommand(environ) },
		workersDrainCommand(environ))
}

func workersListCommand(environ []string) *cobra.Command {
	var o operateOptions
	var all bool
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the workers",
		Long: `Lists the workers, each a registration of a sidecar, that have not ended; with --all
those that have, too. RUNS are the tasks that it runs, SLOTS how many it may run now,
CEILING how many at most. BEAT is how long ago its last heartbeat was: they come every 5
seconds, and who is silent for 20 is evicted by the leader. With --json each line is a
row of sched.worker, and alive says that it has not ended and is not silent.`,
		Args: noArgs,
	}
	o.add(cmd)
	cmd.Flags().BoolVarP(&all, "all", "a", false, "those that ended, too")
	cmd.Flags().IntVar(&limit, "limit", maxRows, "at most so many")
	cmd.RunE = o.run(environ, func(ctx context.Context, op *operator.Operator, s *screen, _ []string) error {
		if err := checkLimit(limit); err != nil {
			return err
		}
		workers, err := op.Workers(ctx, all, limit)
		if err != nil {
			return err
		}
		if s.json {
			return objects(s, workers, func(w operator.Worker) json.RawMessage { return w.JSON })
		}
		if len(workers) == 0 {
			s.note("no worker is registered: start sched-sidecar beside an app")

			return nil
		}
		now, err := op.Now(ctx)
		if err != nil {
			return err
		}

		return showWorkers(s, workers, now)
	})

	return cmd
}

func showWorkers(s *screen, workers []operator.Worker, now time.Time) error {
	t := table{columns: []column{
		{title: "ID"},
		{title: "HOST", flexible: true},
		{title: "APP", flexible: true},
		{title: "STATE"},
		{title: "RUNS", right: true},
		{title: "SLOTS", right: true},
		{title: "CEILING", right: true, spare: true},
		{title: "BEAT", right: true},
		{title: "UP", right: true},
		{title: "SERVES", flexible: true, optional: true},
		{title: "NOTE", flexible: true, optional: true},
	}}
	for _, w := range workers {
		state, beat, paint := w.State, span(now.Sub(w.HeartbeatAt)), map[int]color{3: workerColor(w)}
		up := now.Sub(w.StartedAt)
		if w.EndedAt != nil {
			up = w.EndedAt.Sub(w.StartedAt)
		} else if !w.Alive {
			paint[7] = red
		}
		t.add(paint, w.ID, w.Hostname, w.AppURL, state, number(w.Running), number(w.Slots), number(w.Ceiling), beat, span(up), serves(w), workerNote(w))
	}

	return t.write(s.out, s.width, s.color)
}

func workerColor(w operator.Worker) color {
	switch w.State {
	case "active":
		return green
	case "draining":
		return yellow
	case "evicted":
		return red
	case "done":
		return grey
	default:
		return ""
	}
}

// serves says which tasks a worker takes; nothing if it takes all that need no label.
func serves(w operator.Worker) string {
	var parts []string
	if w.Queues != nil {
		parts = append(parts, "queues "+strings.Join(w.Queues, ","))
	}
	if w.Kinds != nil {
		parts = append(parts, "kinds "+strings.Join(w.Kinds, ","))
	}
	if labels := pairs(w.Labels); labels != "" {
		parts = append(parts, labels)
	}

	return strings.Join(parts, "; ")
}

func workerNote(w operator.Worker) string {
	var notes []string
	switch {
	case w.EndedAt == nil && !w.Alive:
		notes = append(notes, "silent: crashed or cut off")
	case w.State != "pending" && w.State != "active": // of these it would say no more than the state
		notes = append(notes, w.Reason)
	}
	if len(w.SkippedKinds) > 0 {
		notes = append(notes, "its app lacks "+strings.Join(w.SkippedKinds, ", "))
	}

	return strings.Join(notes, "; ")
}

func workersDrainCommand(environ []string) *cobra.Command {
	var o operateOptions
	cmd := &cobra.Command{
		Use:   "drain ID",
		Short: "Ask a worker to take nothing more and end what it runs",
		Long: `Drains a worker: from now on it takes no task, and what it runs goes on to its end.
There is no way back for this worker; its sidecar registers a new one when it is
started again. Exit code 3 if there is no such worker, 1 if it has ended.`,
		Args: exactArgs("ID"),
	}
	o.add(cmd)
	cmd.RunE = o.run(environ, func(ctx context.Context, op *operator.Operator, s *screen, args []string) error {
		state, running, err := op.Drain(ctx, args[0])
		if err != nil {
			return err
		}
		if s.json {
			err = s.object(struct {
				ID      string `json:"id"`
				State   string `json:"state"`
				Running int    `json:"running"`
			}{args[0], state, running})
		} else if state == "draining" {
			err = s.say("worker %s is draining and runs %s", args[0], plural(running, "task"))
		}
		if err == nil && state != "draining" {
			err = fmt.Errorf("worker %s has ended before: it is %s", args[0], state)
		}

		return err
	})

	return cmd
}

// objects prints rows for a program.
func objects[T any](s *screen, list []T, row func(T) json.RawMessage) error {
	for _, item := range list {
		if err := s.object(row(item)); err != nil {
			return err
		}
	}

	return nil
}

func checkLimit(limit int) error {
	if limit < 1 || limit > maxRows {
		return &usageError{fmt.Errorf("--limit %d: use 1 to %d", limit, maxRows)}
	}

	return nil
}
