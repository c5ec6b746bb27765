package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sched-sidecar/sched/internal/operator"
)

// maxFailuresTold bounds what a change of many says about single tasks to a
// person; a program gets a line for each.
const maxFailuresTold = 20

// changeOptions are the flags of tasks cancel and tasks retry.
type changeOptions struct {
	operateOptions
	filterOptions

	action operator.Action
	dryRun bool
	yes    bool
	limit  int
}

func tasksChangeCommand(environ []string, action operator.Action) *cobra.Command {
	o := changeOptions{action: action}
	cmd := &cobra.Command{Use: string(action) + " [ID]..."}
	const many = `
Tasks are named by id, or by filters. Filters first say how many tasks match; at a
terminal they ask before anything is changed. The tasks that match then are
the ones that are changed: one that fails again meanwhile is not met twice. They
are changed in small transactions, and one that no longer has its status, or whose
row an app holds open, is skipped. Exit code 1 when a task could not be changed,
3 when there is none with an id.`
	defaults := "all that have not ended"
	switch action {
	case operator.Cancel:
		cmd.Short = "Cancel tasks by id or by filter"
		cmd.Long = `Cancels tasks: one that waits at once, one that runs through its sidecar, which
ends the request to the app; it is cancelled unless the app completes it first.
` + many
	case operator.Retry:
		cmd.Short = "Make tasks run again now, by id or by filter"
		cmd.Long = `Makes tasks run again now, whether they wait for a later time or have ended. A task
whose attempts are spent gets one more.
` + many
		defaults = strings.Join(action.DefaultStatuses(), ", ")
	}
	o.operateOptions.add(cmd)
	o.filterOptions.add(cmd, action.Statuses(),
		fmt.Sprintf("in these `statuses`, with commas between: %s (default %s)", strings.Join(action.Statuses(), ", "), defaults))
	fs := cmd.Flags()
	fs.BoolVar(&o.dryRun, "dry-run", false, "say what matches and change nothing")
	fs.BoolVarP(&o.yes, "yes", "y", false, "don't ask")
	fs.IntVar(&o.limit, "limit", operator.MaxMatch, "change at most so many, the oldest first")
	cmd.Args = o.check
	cmd.RunE = o.run(environ, func(ctx context.Context, op *operator.Operator, s *screen, args []string) error {
		if len(args) > 0 {
			return o.changeEach(ctx, op, s, args)
		}

		return o.changeMatched(ctx, op, s)
	})

	return cmd
}

func (o *changeOptions) check(cmd *cobra.Command, args []string) error {
	var wrong string
	switch {
	case len(args) == 0 && !o.given():
		wrong = "needs ids, or a filter such as --status " + o.action.DefaultStatuses()[0]
	case len(args) > 0 && o.given():
		wrong = "takes ids or filters, not both"
	case len(args) > 0 && o.dryRun:
		wrong = "--dry-run goes with filters; to look at a task use sched tasks get"
	case o.limit < 1 || o.limit > operator.MaxMatch:
		wrong = fmt.Sprintf("--limit %d: use 1 to %d, and the same command again for more", o.limit, operator.MaxMatch)
	default:
		return nil
	}

	return &usageError{fmt.Errorf("%s%s; see %s --help", pathBelowRoot(cmd), wrong, cmd.CommandPath())}
}

// changeEach changes the tasks with the ids.
func (o *changeOptions) changeEach(ctx context.Context, op *operator.Operator, s *screen, args []string) error {
	ids, err := parseIDs(args)
	if err != nil {
		return err
	}
	sum := tally{action: o.action}
	err = op.ChangeEach(ctx, o.action, ids, func(c operator.Change) {
		sum.add(c)
		sum.keep(o.tell(s, c))
	})

	return sum.verdict(err)
}

// tell says what became of one task.
func (o *changeOptions) tell(s *screen, c operator.Change) error {
	if s.json {
		return s.object(changeLine(o.action, c))
	}

	return s.say("task %d: %s", c.ID, outcomeText(o.action, c))
}

// changeMatched changes the tasks that the filters match.
func (o *changeOptions) changeMatched(ctx context.Context, op *operator.Operator, s *screen) error {
	filter, err := o.resolve(ctx, op)
	if err != nil {
		return err
	}
	match, err := op.Match(ctx, o.action, filter, o.limit)
	if err != nil {
		return err
	}
	if err := o.count(s, match); err != nil {
		return err
	}
	if o.dryRun || len(match.IDs) == 0 {
		return nil
	}
	if s.ask && !o.yes {
		question := fmt.Sprintf("%s %s? [y/N] ", title(o.action), plural(len(match.IDs), "task"))
		if err := confirm(ctx, s.in, s.err, question); err != nil {
			return err
		}
	}

	sum := tally{action: o.action}
	bar := newProgress(s, past(o.action), int64(len(match.IDs)))
	err = op.ChangeMatched(ctx, o.action, filter, match.IDs, func(c operator.Change) {
		sum.add(c)
		if s.json {
			sum.keep(s.object(changeLine(o.action, c)))
		}
		bar.set(int64(sum.counts[operator.Done]+sum.counts[operator.Asked]), int64(sum.total))
	})
	bar.end()
	if !s.json {
		sum.keep(sum.show(s, len(match.IDs)))
	}

	return sum.verdict(err)
}

// count says what matches.
func (o *changeOptions) count(s *screen, match operator.Match) error {
	if s.json {
		if !o.dryRun {
			return nil // lines about tasks follow, and say it
		}
		for _, g := range match.Groups {
			err := s.object(struct {
				Action string `json:"action"`
				DryRun bool   `json:"dry_run"`
				operator.Group
			}{string(o.action), true, g})
			if err != nil {
				return err
			}
		}

		return nil
	}
	if len(match.IDs) == 0 {
		s.note("no task matches")

		return nil
	}
	t := table{columns: []column{{title: "KIND", flexible: true}, {title: "STATUS"}, {title: "TASKS", right: true}}}
	for _, g := range match.Groups {
		t.add(map[int]color{1: statusColor(g.Status)}, g.Kind, g.Status, number(g.Count))
	}
	if err := t.write(s.out, s.width, s.color); err != nil {
		return err
	}
	if match.More {
		return s.say("%s match, and more that the limit leaves out", plural(len(match.IDs), "task"))
	}

	return s.say("%s", strings.Replace(plural(len(match.IDs), "task")+" match", "1 task match", "1 task matches", 1))
}

// tally adds up what became of tasks.
type tally struct {
	action   operator.Action
	total    int
	counts   map[operator.Outcome]int
	failures []operator.Change // the first ones
	err      error             // of writing the answer
}

func (t *tally) add(c operator.Change) {
	if t.counts == nil {
		t.counts = map[operator.Outcome]int{}
	}
	t.total++
	t.counts[c.Outcome]++
	if c.Outcome.Failed() && len(t.failures) < maxFailuresTold {
		t.failures = append(t.failures, c)
	}
}

// keep remembers the first error of writing: the change goes on without a reader.
func (t *tally) keep(err error) {
	if t.err == nil {
		t.err = err
	}
}

func (t *tally) failed() int {
	n := 0
	for outcome, count := range t.counts {
		if outcome.Failed() {
			n += count
		}
	}

	return n
}

// show says what became of matched tasks.
func (t *tally) show(s *screen, matched int) error {
	for _, c := range t.failures {
		s.note("task %d: %s", c.ID, outcomeText(t.action, c))
	}
	if more := t.failed() - len(t.failures); more > 0 {
		s.note("and %s more; --json has a line for each", number(more))
	}
	parts := []string{past(t.action) + " " + number(t.counts[operator.Done])}
	for _, p := range []struct {
		outcome operator.Outcome
		text    string
	}{
		{operator.Asked, "asked to end %s that run"},
		{operator.Unchanged, "%s needed nothing"},
		{operator.Skipped, "skipped %s that changed meanwhile or whose row is held"},
		{operator.Conflict, "%s have a unique key that another unfinished task has"},
		{operator.Refused, "%s refused"},
		{operator.Missing, "%s are gone"},
		{operator.Running, "%s run"},
	} {
		if n := t.counts[p.outcome]; n > 0 {
			parts = append(parts, fmt.Sprintf(p.text, number(n)))
		}
	}
	if left := matched - t.total; left > 0 {
		parts = append(parts, number(left)+" not reached")
	}

	return s.say("%s", strings.Join(parts, ", "))
}

// verdict is the command's error.
func (t *tally) verdict(err error) error {
	switch failed := t.failed(); {
	case err != nil:
		return err
	case t.err != nil:
		return t.err
	case failed == 0:
		return nil
	case t.counts[operator.Missing] == t.total:
		return fmt.Errorf("%s: %w", plural(failed, "task"), operator.ErrNotFound)
	default:
		return fmt.Errorf("%d of %s could not be %s", failed, plural(t.total, "task"), past(t.action))
	}
}

func past(action operator.Action) string {
	if action == operator.Cancel {
		return "cancelled"
	}

	return "retried"
}

func title(action operator.Action) string {
	if action == operator.Cancel {
		return "Cancel"
	}

	return "Retry"
}

// changed is one task's line for a program.
type changed struct {
	ID      int64  `json:"id"`
	Action  string `json:"action"`
	Outcome string `json:"outcome"`
	Status  string `json:"status,omitempty"`
	Error   string `json:"error,omitempty"`
}

func changeLine(action operator.Action, c operator.Change) changed {
	line := changed{ID: c.ID, Action: string(action), Outcome: string(c.Outcome), Status: c.Status}
	if c.Err != nil {
		line.Error = c.Err.Error()
	}

	return line
}

// outcomeText says what became of one task.
func outcomeText(action operator.Action, c operator.Change) string {
	switch c.Outcome {
	case operator.Done:
		if action == operator.Retry {
			return "available, runs again now"
		}

		return c.Status
	case operator.Asked:
		return "running; its sidecar was asked to end it"
	case operator.Unchanged:
		return c.Status + " already, nothing changed"
	case operator.Missing:
		return "there is no such task"
	default:
		return clean(c.Err.Error())
	}
}
