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

const (
	defaultQueueLimit = 200
	defaultCountBound = 10_000
	maxCountBound     = 100_000_000
)

func queuesCommand(environ []string) *cobra.Command {
	return listGroup("queues", "List queues, configure, pause and resume them",
		func() *cobra.Command { return queuesListCommand(environ) },
		queuesSetCommand(environ),
		queuesPauseCommand(environ, true),
		queuesPauseCommand(environ, false))
}

func queuesListCommand(environ []string) *cobra.Command {
	var o operateOptions
	var limit, bound int
	var after string
	cmd := &cobra.Command{
		Use:   "list [NAME]...",
		Short: "List queues with what waits and runs in them",
		Long: `Lists queues by name: all of them, or those named and the ones derived from them by a
selector or protocol (NAME|hash). OLDEST is how long the task that waits longest could
have run; WORKERS are alive and offer what the queue demands. PRESSURE is how close it is
to its limits, as the leader saw it last ("sched pressure" says why). LIMITS are what is
configured: the most tasks that run at once, and that start a second; NOTE says what
nobody offers, if nobody can serve the queue.

Counting is bounded, so that asking costs the same on a full database: at most
--count-to tasks available in each queue, as many running ones over all queues, and as
many of the scheduled and retryable ones over all queues, the next due first. A count
with + behind it has reached that bound: it is that or more.`,
	}
	o.add(cmd)
	fs := cmd.Flags()
	fs.IntVar(&limit, "limit", defaultQueueLimit, "at most so many queues")
	fs.StringVar(&after, "after", "", "go on behind the queue with this `name`")
	fs.IntVar(&bound, "count-to", defaultCountBound, "count up to so many tasks")
	cmd.RunE = o.run(environ, func(ctx context.Context, op *operator.Operator, s *screen, args []string) error {
		if err := checkLimit(limit); err != nil {
			return err
		}
		if bound < 1 || bound > maxCountBound {
			return &usageError{fmt.Errorf("--count-to %d: use 1 to %d", bound, maxCountBound)}
		}
		if len(args) == 0 {
			args = nil // all of them
		}
		queues, err := op.Queues(ctx, args, after, limit, bound)
		if err != nil {
			return err
		}

		return showQueues(s, queues, args, limit)
	})

	return cmd
}

func showQueues(s *screen, queues []operator.Queue, named []string, limit int) error {
	if len(queues) == 0 && len(named) > 0 {
		return fmt.Errorf("queue %s: %w; a queue is made when its first task is enqueued", named[0], operator.ErrNotFound)
	}
	if len(queues) == limit {
		defer s.note("there may be more: add --after '%s'", queues[len(queues)-1].Name)
	}
	if s.json {
		return objects(s, queues, func(q operator.Queue) json.RawMessage { return q.JSON })
	}
	if len(queues) == 0 {
		s.note("no queue yet: the first task makes one")

		return nil
	}
	t := table{columns: []column{
		{title: "QUEUE", flexible: true},
		{title: "STATE"},
		{title: "PRESSURE"},
		{title: "AVAILABLE", right: true},
		{title: "OLDEST", right: true},
		{title: "RUNNING", right: true},
		{title: "SCHEDULED", right: true, spare: true},
		{title: "RETRYABLE", right: true, spare: true},
		{title: "WORKERS", right: true},
		{title: "LIMITS", flexible: true, optional: true},
		{title: "DEMANDS", flexible: true, optional: true},
		{title: "NOTE", flexible: true, optional: true},
	}}
	for _, q := range queues {
		oldest, state, paint := none, "open", map[int]color{2: levelColor(q.Pressure)}
		if q.OldestSeconds != nil {
			oldest = span(time.Duration(*q.OldestSeconds * float64(time.Second)))
		}
		if q.PausedAt != nil {
			state, paint[1] = "paused "+span(time.Since(*q.PausedAt)), yellow
		}
		if q.Workers == 0 {
			paint[8] = red
		}
		t.add(paint, q.Name, state, q.Pressure, atLeast(q.Available, q.AvailableIsMore), oldest, atLeast(q.Running, q.RunningIsMore),
			atLeast(q.Scheduled, q.TimedIsMore), atLeast(q.Retryable, q.TimedIsMore), number(q.Workers),
			limits(q), demands(q), queueNote(q))
	}

	return t.write(s.out, s.width, s.color)
}

// limits says what is configured of a queue and differs from the default.
func limits(q operator.Queue) string {
	var parts []string
	if q.MaxRunning != nil {
		parts = append(parts, "runs "+number(*q.MaxRunning))
	}
	if q.Rate != nil {
		parts = append(parts, fmt.Sprintf("%v/s", *q.Rate))
	}
	if q.Burst != nil && q.Rate != nil {
		parts = append(parts, "burst "+number(*q.Burst))
	}
	if q.MaxPending != nil {
		parts = append(parts, "pending "+number(*q.MaxPending))
	}
	if q.Admission != "" && q.Admission != "accept" {
		parts = append(parts, q.Admission)
	}
	if q.Strategy != "" && q.Strategy != "least_loaded" {
		parts = append(parts, q.Strategy)
	}

	return strings.Join(parts, ", ")
}

func queueNote(q operator.Queue) string {
	if q.Unroutable == "" {
		return ""
	}

	return "nobody offers " + q.Unroutable
}

// levelColor is that of a level of pressure.
func levelColor(level string) color {
	switch level {
	case "red":
		return red
	case "yellow":
		return yellow
	default:
		return ""
	}
}

// demands says what a worker must offer to serve a queue.
func demands(q operator.Queue) string {
	text := pairs(q.Selector)
	if q.Protocol != "any" {
		if text != "" {
			text += ", "
		}
		text += q.Protocol
	}

	return text
}

func queuesPauseCommand(environ []string, pause bool) *cobra.Command {
	var o operateOptions
	var exact, all bool
	cmd := &cobra.Command{
		Use:   "resume NAME... | --all",
		Short: "Let tasks of queues start again",
		Long: `Ends the pause of queues: of each named and of those derived from it by a selector or
protocol (NAME|hash), with --exact of the ones named alone, with --all of every queue.
Exit code 3, with nothing done, if there is no queue of a name.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if !all {
				return someArgs("NAME")(cmd, args)
			}

			return noArgs(cmd, args)
		},
	}
	if pause {
		cmd.Use, cmd.Short = "pause NAME... | --all", "Keep tasks of queues from starting"
		cmd.Long = `Pauses queues: each named and those derived from it by a selector or protocol
(NAME|hash), with --exact the ones named alone, with --all every queue that there is. No
task of them is started, by a sidecar or a River client, until "sched queues resume";
what runs goes on, and tasks can be enqueued. A queue that is made later is not paused.
Exit code 3, with nothing done, if there is no queue of a name.`
	}
	o.add(cmd)
	cmd.Flags().BoolVar(&exact, "exact", false, "only the queues with these very names")
	cmd.Flags().BoolVar(&all, "all", false, "every queue")
	cmd.RunE = o.run(environ, func(ctx context.Context, op *operator.Operator, s *screen, args []string) error {
		if err := notBoth(cmd, "all", "exact"); err != nil {
			return err
		}
		act, everything := op.Resume, op.ResumeAll
		if pause {
			act, everything = op.Pause, op.PauseAll
		}
		var changes []operator.QueueChange
		var err error
		if all {
			changes, err = everything(ctx)
		} else {
			changes, err = act(ctx, args, exact)
		}
		if err != nil {
			return err
		}
		for _, c := range changes {
			if s.json {
				err = s.object(c)
			} else {
				err = s.say("%s", queueText(c))
			}
			if err != nil {
				return err
			}
		}

		return nil
	})

	return cmd
}

func queueText(c operator.QueueChange) string {
	name := "queue " + clean(c.Name)
	switch {
	case c.Paused && c.Changed:
		return name + " is paused"
	case c.Paused:
		return name + " was paused before, at " + localTime(*c.PausedAt)
	case c.Changed:
		return name + " is open again"
	default:
		return name + " was not paused"
	}
}
