package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sched-sidecar/sched/internal/operator"
)

const (
	defaultListLimit = 50
	listPage         = 1000 // tasks in one query of a long list
	maxAttemptsShown = 10_000
)

func tasksCommand(environ []string) *cobra.Command {
	return group("tasks", "List, show, cancel and retry tasks",
		tasksListCommand(environ),
		tasksGetCommand(environ),
		tasksChangeCommand(environ, operator.Cancel),
		tasksChangeCommand(environ, operator.Retry),
	)
}

func tasksListCommand(environ []string) *cobra.Command {
	var o operateOptions
	var f filterOptions
	var limit int
	var after string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List tasks, the newest first",
		Long: `Lists tasks, the newest first; with --since, --until or --worker the latest start
first, without those that never started. Where a list was cut, the last line on
standard error tells how to go on. With --json each line is a row of sched.task.

--status, --batch, --since, --until and --worker are served by indexes. The others
are looked for among the newest tasks until the page is full, which takes about a
second for each few million tasks if there are none.`,
		Args: noArgs,
	}
	o.add(cmd)
	f.add(cmd, operator.Statuses(), "in these `statuses`, with commas between: "+strings.Join(operator.Statuses(), ", "))
	cmd.Flags().IntVar(&limit, "limit", defaultListLimit, "at most so many; 0 for all")
	cmd.Flags().StringVar(&after, "after", "", "go on behind this `cursor`, which the page before ended with")
	cmd.RunE = o.run(environ, func(ctx context.Context, op *operator.Operator, s *screen, _ []string) error {
		if limit < 0 {
			return &usageError{fmt.Errorf("--limit %d: use a number from 0 (all) up", limit)}
		}
		filter, err := f.resolve(ctx, op)
		if err != nil {
			return err
		}

		return listTasks(ctx, op, s, filter, after, limit)
	})

	return cmd
}

// listTasks shows page after page. For programs and long lists each page is
// printed when it is there; a table of its own has its own widths.
func listTasks(ctx context.Context, op *operator.Operator, s *screen, f operator.Filter, after string, limit int) error {
	left := limit
	for first := true; ; first = false {
		page := listPage
		if limit > 0 {
			page = min(page, left)
		}
		tasks, next, err := op.Tasks(ctx, f, after, page)
		if err != nil {
			return err
		}
		if err := showTasks(s, tasks, first); err != nil {
			return err
		}
		left -= len(tasks)
		after = next
		switch {
		case next == "":
			return nil
		case limit > 0 && left <= 0:
			s.note("there are more: add --after %s", next)

			return nil
		}
	}
}

func showTasks(s *screen, tasks []operator.Task, first bool) error {
	if s.json {
		for _, task := range tasks {
			if err := s.object(task.JSON); err != nil {
				return err
			}
		}

		return nil
	}
	if len(tasks) == 0 {
		if first {
			s.note("no task matches")
		}

		return nil
	}
	t := table{columns: []column{
		{title: "ID", right: true},
		{title: "KIND", flexible: true},
		{title: "QUEUE", flexible: true, spare: true},
		{title: "STATUS"},
		{title: "TRY", right: true},
		{title: "STARTED"},
		{title: "TOOK", right: true},
		{title: "WORKER", spare: true},
		{title: "NOTE", flexible: true, optional: true},
	}}
	for _, task := range tasks {
		t.add(map[int]color{3: statusColor(task.Status)},
			strconv.FormatInt(task.ID, 10), task.Kind, task.Queue, task.Status,
			fmt.Sprintf("%d/%d", task.Attempt, task.MaxAttempts), localTimeIfAny(task.StartTime),
			took(task.StartTime, task.EndTime, task.Status == "running"), orNone(task.WorkerID), taskNote(task))
	}

	return t.write(s.out, s.width, s.color)
}

// took is how long an attempt took, or has taken so far.
func took(start, end *time.Time, running bool) string {
	switch {
	case start == nil:
		return none
	case end != nil:
		return span(end.Sub(*start))
	case running:
		return span(time.Since(*start))
	default:
		return none
	}
}

func orNone(text string) string {
	if text == "" {
		return none
	}

	return text
}

// taskNote is what one wants to know of a task in its status.
func taskNote(task operator.Task) string {
	var notes []string
	if task.Status == "scheduled" || task.Status == "retryable" {
		notes = append(notes, "due "+localTime(task.RunAt))
	}
	if task.Error != "" {
		notes = append(notes, task.Error)
	}

	return strings.Join(notes, ": ")
}

func tasksGetCommand(environ []string) *cobra.Command {
	var o operateOptions
	var attempts int
	cmd := &cobra.Command{
		Use:   "get ID",
		Short: "Show all that is known of a task, its attempts among it",
		Long: `Shows a task with its attempts. With --json it is a row of sched.task with an array
"attempts" of rows of sched.attempt. Exit code 3 if there is no such task: tasks
are deleted some time after they end.`,
		Args: exactArgs("ID"),
	}
	o.add(cmd)
	cmd.Flags().IntVar(&attempts, "attempts", defaultListLimit, "at most so many of the latest attempts")
	cmd.RunE = o.run(environ, func(ctx context.Context, op *operator.Operator, s *screen, args []string) error {
		ids, err := parseIDs(args)
		if err != nil {
			return err
		}
		if attempts < 0 || attempts > maxAttemptsShown {
			return &usageError{fmt.Errorf("--attempts %d: use 0 to %d", attempts, maxAttemptsShown)}
		}
		task, err := op.Task(ctx, ids[0], attempts)
		if err != nil {
			return err
		}
		if s.json {
			return s.object(task.JSON)
		}

		return showTask(s, task)
	})

	return cmd
}

func showTask(s *screen, task operator.Task) error {
	var f facts
	f.add("id", strconv.FormatInt(task.ID, 10))
	f.add("kind", task.Kind)
	f.add("status", task.Status)
	f.add("queue", task.Queue)
	f.addf("priority", "%d", task.Priority)
	f.addf("attempts", "%d of %d", task.Attempt, task.MaxAttempts)
	f.add("enqueued", preciseTime(&task.CreatedAt)+by(task))
	f.add("due", preciseTime(&task.RunAt))
	f.add("started", preciseTime(task.StartTime))
	f.add("ended", preciseTime(task.EndTime))
	f.add("worker", task.WorkerID)
	f.add("batch", task.Batch)
	f.add("unique key", task.UniqueKey)
	f.add("selector", pairs(task.Selector))
	if task.Protocol != "any" {
		f.add("protocol", task.Protocol)
	}
	f.add("timeout", task.Timeout)
	f.add("headers", strings.ReplaceAll(pairs(task.Headers), ", ", "\n"))
	if task.Snoozes > 0 {
		f.addf("put off", "%d times", task.Snoozes)
	}
	if task.Lost > 0 {
		f.addf("lost", "%d workers died while they ran it", task.Lost)
	}
	f.add("args", indented(task.Args))
	f.add("output", indented(task.Output))
	f.add("error", task.Error)
	if err := f.write(s.out); err != nil || len(task.Attempts) == 0 {
		return err
	}

	return showAttempts(s, task.Attempts)
}

// by says who enqueued a task.
func by(task operator.Task) string {
	who := task.EnqueuedBy
	if task.EnqueuedApp != "" {
		who += " (" + task.EnqueuedApp + ")"
	}
	if who == "" {
		return ""
	}

	return " by " + strings.TrimSpace(who)
}

func showAttempts(s *screen, attempts []operator.Attempt) error {
	t := table{columns: []column{
		{title: "TRY", right: true},
		{title: "STARTED"},
		{title: "TOOK", right: true},
		{title: "OUTCOME"},
		{title: "WORKER"},
		{title: "ERROR", flexible: true},
	}}
	for _, a := range attempts {
		outcome := a.Outcome
		if outcome == "" {
			outcome = "running"
		}
		t.add(map[int]color{3: statusColor(outcome)}, strconv.Itoa(a.Attempt), localTime(a.StartTime),
			took(&a.StartTime, a.EndTime, a.Outcome == ""), outcome, orNone(a.WorkerID), a.Error)
	}
	if _, err := fmt.Fprintln(s.out); err != nil {
		return err
	}

	return t.write(s.out, s.width, s.color)
}

// parseIDs reads task ids.
func parseIDs(args []string) ([]int64, error) {
	ids := make([]int64, len(args))
	for i, arg := range args {
		id, err := strconv.ParseInt(arg, 10, 64)
		if err != nil || id <= 0 {
			return nil, &usageError{fmt.Errorf("%q is no task id: pass the number that enqueue returned", arg)}
		}
		ids[i] = id
	}

	return ids, nil
}
