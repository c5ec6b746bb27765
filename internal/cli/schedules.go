package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sched-sidecar/sched/internal/operator"
	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/schedule"
)

func schedulesCommand(environ []string) *cobra.Command {
	return listGroup("schedules", "List and change periodic tasks",
		func() *cobra.Command { return schedulesListCommand(environ) },
		schedulesSetCommand(environ),
		scheduleCommand(environ, "pause", "Enqueue nothing until resumed",
			"Pauses a schedule. Times that pass meanwhile are not made up for. Exit code 3 if there is none\nof this name.",
			func(ctx context.Context, op *operator.Operator, name string) (string, any, error) {
				return "is paused", struct {
					Paused bool `json:"paused"`
				}{true}, op.PauseSchedule(ctx, name, true)
			}),
		scheduleCommand(environ, "resume", "End a pause",
			"Resumes a schedule: it goes on at its next time. Exit code 3 if there is none of this name.",
			func(ctx context.Context, op *operator.Operator, name string) (string, any, error) {
				return "goes on at its next time", struct {
					Paused bool `json:"paused"`
				}{false}, op.PauseSchedule(ctx, name, false)
			}),
		scheduleCommand(environ, "run", "Enqueue its task now",
			"Enqueues the schedule's task now, whatever the time and the pressure, also when it is paused.\nIts next time stays. Exit code 3 if there is none of this name.",
			func(ctx context.Context, op *operator.Operator, name string) (string, any, error) {
				id, err := op.RunSchedule(ctx, name)

				return fmt.Sprintf("runs as task %d", id), struct {
					TaskID int64 `json:"task_id"`
				}{id}, err
			}),
		scheduleCommand(environ, "delete", "Remove one",
			"Removes a schedule. Tasks that it enqueued stay. Exit code 3 if there is none of this name.",
			func(ctx context.Context, op *operator.Operator, name string) (string, any, error) {
				return "is removed", struct {
					Deleted bool `json:"deleted"`
				}{true}, op.DeleteSchedule(ctx, name)
			}))
}

func schedulesListCommand(environ []string) *cobra.Command {
	var o operateOptions
	var limit int
	var after string
	cmd := &cobra.Command{
		Use:   "list [NAME]...",
		Short: "List schedules",
		Long: `Lists schedules by name: all of them, or those named. NEXT is when it is due, by this
machine's clock and time zone; NOTE says why it waits, or what is wrong with it. With
--json each line is a row of sched.schedule.`,
	}
	o.add(cmd)
	cmd.Flags().IntVar(&limit, "limit", defaultQueueLimit, "at most so many")
	cmd.Flags().StringVar(&after, "after", "", "go on behind the schedule with this `name`")
	cmd.RunE = o.run(environ, func(ctx context.Context, op *operator.Operator, s *screen, args []string) error {
		if err := checkLimit(limit); err != nil {
			return err
		}
		if len(args) == 0 {
			args = nil // all of them
		}
		schedules, err := op.Schedules(ctx, args, after, limit)
		if err != nil {
			return err
		}
		if len(schedules) == 0 && args != nil {
			return fmt.Errorf("schedule %s: %w", args[0], operator.ErrNotFound)
		}
		if len(schedules) == limit {
			defer s.note("there may be more: add --after '%s'", schedules[len(schedules)-1].Name)
		}
		if s.json {
			return objects(s, schedules, func(x operator.Schedule) json.RawMessage { return x.JSON })
		}
		if len(schedules) == 0 {
			s.note("no schedule yet: sched schedules set NAME CRON KIND makes one")

			return nil
		}

		return showSchedules(s, schedules)
	})

	return cmd
}

func showSchedules(s *screen, schedules []operator.Schedule) error {
	t := table{columns: []column{
		{title: "NAME", flexible: true},
		{title: "CRON"},
		{title: "ZONE", spare: true},
		{title: "KIND", flexible: true},
		{title: "STATE"},
		{title: "NEXT"},
		{title: "LAST", spare: true},
		{title: "TASK", right: true, spare: true},
		{title: "NOTE", flexible: true, optional: true},
	}}
	for _, x := range schedules {
		state, paint, note, task := "on", color(""), x.Description, none
		switch {
		case x.Error != "":
			state, paint, note = "failed", red, x.Error
		case x.Paused:
			state, paint = "paused", yellow
		case x.WaitingReason != "":
			state, paint, note = "waits", yellow, x.WaitingReason
		}
		if x.LastTaskID != nil {
			task = fmt.Sprint(*x.LastTaskID)
		}
		t.add(map[int]color{4: paint}, x.Name, x.Cron, x.Timezone, x.Kind, state, localTimeIfAny(x.NextRunAt), localTimeIfAny(x.LastRunAt), task, note)
	}

	return t.write(s.out, s.width, s.color)
}

func schedulesSetCommand(environ []string) *cobra.Command {
	var o operateOptions
	spec := operator.ScheduleSpec{}
	var timeout spanValue
	var overlap, pinned bool
	selector := pairsValue{}
	cmd := &cobra.Command{
		Use:   "set NAME CRON KIND [ARGS_JSON]",
		Short: "Make or change a schedule",
		Long: `Makes a schedule, or changes one that is there: then what is left out stays as it is. CRON
is five fields (minute, hour, day of month, month, day of week), or @hourly, @daily, @weekly,
@monthly, @yearly, or @every with a duration, by the clock of --timezone. Prints the next
three times.`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) < 3 || len(args) > 4:
				return &usageError{fmt.Errorf("%sneeds NAME CRON KIND [ARGS_JSON], got %q; see %s --help", pathBelowRoot(cmd), args, cmd.CommandPath())}
			case len(args) == 4 && !json.Valid([]byte(args[3])):
				return &usageError{fmt.Errorf("args %q are no JSON; quote them for the shell: '{\"to\": 7}'", args[3])}
			}

			return nil
		},
	}
	o.add(cmd)
	fs := cmd.Flags()
	fs.StringVar(&spec.Timezone, "timezone", "", "`zone` whose clock CRON means, such as Europe/Berlin (default UTC)")
	fs.StringVar(&spec.Description, "description", "", "what it is, for people")
	fs.StringVar(&spec.Queue, "queue", "", "`name` of the queue (default the kind's, else default)")
	fs.Var(selector, "selector", "label that the worker must carry; again for one more")
	fs.StringVar(&spec.Protocol, "protocol", "", "`protocol` that the worker's app must speak: any, http, grpc, exec (default the kind's, else any)")
	fs.IntVar(&spec.Priority, "priority", 0, "1 starts first, 4 last (default the kind's, else 1)")
	fs.IntVar(&spec.MaxAttempts, "max-attempts", 0, "attempts after which a failing task is discarded (default the kind's, else 25)")
	fs.Var(&timeout, "timeout", "time that an attempt may take (default the kind's, else the sidecar's)")
	fs.BoolVar(&overlap, "overlap", true, "enqueue a task while the one before it is unfinished")
	fs.BoolVar(&pinned, "pinned", false, "sched apply leaves it alone")
	oneOf(cmd, "protocol", []string{jobs.ProtocolAny, jobs.ProtocolHTTP, jobs.ProtocolGRPC, jobs.ProtocolExec})
	cmd.RunE = o.run(environ, func(ctx context.Context, op *operator.Operator, s *screen, args []string) error {
		spec.Name, spec.Cron, spec.Kind = args[0], args[1], args[2]
		if len(args) == 4 {
			spec.Args = json.RawMessage(args[3])
		}
		if len(selector) > 0 {
			spec.Selector = selector
		}
		spec.Timeout = timeout.d
		if fs.Changed("overlap") {
			spec.Overlap = &overlap
		}
		if fs.Changed("pinned") {
			spec.Pinned = &pinned
		}

		return setSchedule(ctx, op, s, spec)
	})

	return cmd
}

func setSchedule(ctx context.Context, op *operator.Operator, s *screen, spec operator.ScheduleSpec) error {
	zone := spec.Timezone
	if zone == "" { // that of the schedule that is there
		zone = "UTC"
		known, err := op.Schedules(ctx, []string{spec.Name}, "", 1)
		if err != nil {
			return err
		}
		if len(known) == 1 {
			zone = known[0].Timezone
		}
	}
	cron, err := schedule.Parse(spec.Cron, zone)
	if err != nil {
		return &usageError{err}
	}
	set, err := op.SetSchedule(ctx, spec)
	if err != nil {
		return err
	}
	if s.json {
		return s.object(set.JSON)
	}
	now, err := op.Now(ctx)
	if err != nil {
		return err
	}
	if err := s.say("schedule %s is set; its next times, by the clock of %s:", clean(set.Name), zone); err != nil {
		return err
	}
	for range 3 {
		if now = cron.Next(now); now.IsZero() {
			break
		}
		if err := s.say("  %s", now.Format(time.RFC1123Z)); err != nil {
			return err
		}
	}

	return nil
}

// scheduleCommand is one that does something to one schedule.
func scheduleCommand(environ []string, verb, short, long string, act func(context.Context, *operator.Operator, string) (said string, object any, err error)) *cobra.Command {
	var o operateOptions
	cmd := &cobra.Command{Use: verb + " NAME", Short: short, Long: long, Args: exactArgs("NAME")}
	o.add(cmd)
	cmd.RunE = o.run(environ, func(ctx context.Context, op *operator.Operator, s *screen, args []string) error {
		said, object, err := act(ctx, op, args[0])
		switch {
		case err != nil:
			return err
		case s.json:
			return s.object(object)
		default:
			return s.say("schedule %s %s", clean(args[0]), said)
		}
	})

	return cmd
}
