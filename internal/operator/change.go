package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/sql/dbq"
)

const (
	// MaxMatch is how many tasks one change of many can touch.
	MaxMatch = 1_000_000

	// changeBatch is how many tasks are changed in one transaction. Each retry
	// is a subtransaction, and with more than 64 of them every snapshot of the
	// server has to look further.
	changeBatch = 50

	// lockPatience bounds the wait for another transaction in a change of many:
	// below Postgres's deadlock_timeout of 1 s, so that it is never an app that
	// is chosen to break a deadlock.
	lockPatience = "500ms"

	chunkTimeout = 30 * time.Second
)

// Action is what can be done to tasks.
type Action string

// The actions.
const (
	Retry  Action = "retry"
	Cancel Action = "cancel"
)

// Statuses are those that the action applies to.
func (a Action) Statuses() []string {
	if a == Cancel {
		return []string{"scheduled", "pending", "available", "running", "retryable"}
	}
	return []string{"scheduled", "pending", "retryable", "completed", "cancelled", "discarded"}
}

// DefaultStatuses are those that a filter without statuses means: for a retry,
// tasks that failed for good; for a cancel, all that have not ended.
func (a Action) DefaultStatuses() []string {
	if a == Cancel {
		return a.Statuses()
	}
	return []string{"discarded"}
}

// Outcome is what became of one task in a change.
type Outcome string

// The outcomes.
const (
	Done      Outcome = "done"      // retried or cancelled
	Asked     Outcome = "asked"     // runs; its sidecar was asked to end it
	Unchanged Outcome = "unchanged" // had ended before, or was available already
	Skipped   Outcome = "skipped"   // matched before, but no longer, or somebody holds its row
	Missing   Outcome = "missing"   // there is no such task
	Running   Outcome = "running"   // can't be retried: it runs
	Conflict  Outcome = "conflict"  // can't be retried: another unfinished task has its unique key
	Refused   Outcome = "refused"   // can't be changed for another reason, which the error says
)

// Failed reports whether the action was wanted and not done.
func (o Outcome) Failed() bool {
	return slices.Contains([]Outcome{Missing, Running, Conflict, Refused}, o)
}

// Change is what became of one task.
type Change struct {
	ID      int64
	Outcome Outcome
	Status  string // after it, if it is known
	Err     error  // why not; nil unless Failed
}

// Group counts matched tasks.
type Group struct {
	Kind   string `json:"kind"`
	Status string `json:"status"`
	Count  int    `json:"count"`
}

// Match is the set of tasks that a change is about to touch.
type Match struct {
	IDs    []int64 // the oldest first
	Groups []Group // by kind and status
	More   bool    // there are more than were asked for
}

// Match finds the tasks of a filter that the action applies to, up to limit of
// them, at most [MaxMatch]. It changes nothing.
func (o *Operator) Match(ctx context.Context, action Action, f Filter, limit int) (Match, error) {
	limit = min(limit, MaxMatch)
	f, err := action.filter(f)
	if err != nil {
		return Match{}, err
	}
	r, err := o.resolve(ctx, f)
	if err != nil {
		return Match{}, err
	}
	var rows []dbq.TaskMatchRow
	err = o.read(ctx, "looking for tasks", func(q *dbq.Queries) (err error) {
		rows, err = q.TaskMatch(ctx, dbq.TaskMatchParams{
			Statuses: r.statusArray(), Kinds: r.Kinds, Queues: r.queues, Batch: nullText(r.Batch),
			Since: nullTime(r.Since), Until: nullTime(r.Until), WorkerID: nullText(r.Worker), Max: int32(limit + 1),
		})
		return err
	})
	if err != nil {
		return Match{}, err
	}
	m := Match{More: len(rows) > limit}
	rows = rows[:min(limit, len(rows))]
	m.IDs = make([]int64, len(rows))
	counts := map[Group]int{}
	for i, row := range rows {
		m.IDs[i] = row.ID
		counts[Group{Kind: row.Kind, Status: row.Status}]++
	}
	for group, n := range counts {
		group.Count = n
		m.Groups = append(m.Groups, group)
	}
	slices.SortFunc(m.Groups, func(a, b Group) int {
		return strings.Compare(a.Kind+"\x00"+a.Status, b.Kind+"\x00"+b.Status)
	})
	return m, nil
}

// filter fills in the statuses that the action means, and refuses others.
func (a Action) filter(f Filter) (Filter, error) {
	if len(f.Statuses) == 0 {
		f.Statuses = a.DefaultStatuses()
	}
	if err := f.Validate(); err != nil {
		return f, err
	}
	for _, status := range f.Statuses {
		if !slices.Contains(a.Statuses(), status) {
			return f, fmt.Errorf("%w status %q: %s applies to %s", ErrInvalid, status, a, strings.Join(a.Statuses(), ", "))
		}
	}
	return f, nil
}

// ChangeMatched does the action to tasks that a filter matched, those of them
// that still have one of its statuses. It reports each after the transaction that
// changed it. When it fails, or ctx ends, what was reported is done and the rest is
// not, unless the connection broke.
func (o *Operator) ChangeMatched(ctx context.Context, action Action, f Filter, ids []int64, report func(Change)) error {
	f, err := action.filter(f)
	if err != nil {
		return err
	}
	for chunk := range slices.Chunk(ids, changeBatch) {
		err := o.changeChunk(ctx, action, f.statusArray(), chunk, report)
		if !isOfTask(err) {
			if err != nil {
				return translate(string(action), err)
			}
			continue
		}
		// One of them is at fault: each on its own, to see which.
		for single := range slices.Chunk(chunk, 1) {
			err := o.changeChunk(ctx, action, f.statusArray(), single, report)
			if isOfTask(err) {
				report(failure(single[0], translate(string(action), err)))
			} else if err != nil {
				return translate(string(action), err)
			}
		}
	}
	return nil
}

// changeChunk does the action to a few tasks in one transaction, all or none. Once
// begun it isn't cut off, or nobody would know what became of it; it doesn't take
// long, since it waits for nobody.
func (o *Operator) changeChunk(ctx context.Context, action Action, statuses string, ids []int64, report func(Change)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), chunkTimeout)
	defer cancel()
	after := make(map[int64]string, len(ids))
	err := pgx.BeginFunc(ctx, o.conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT set_config('lock_timeout', $1, true)", lockPatience); err != nil {
			return err
		}
		q := o.q.WithTx(tx)
		if action == Cancel {
			rows, err := q.TaskCancelMatched(ctx, dbq.TaskCancelMatchedParams{Ids: ids, Statuses: statuses})
			for _, row := range rows {
				after[row.ID] = row.Status
			}
			return err
		}
		rows, err := q.TaskRetryMatched(ctx, dbq.TaskRetryMatchedParams{Ids: ids, Statuses: statuses})
		for _, row := range rows {
			after[row.ID] = row.Status
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, id := range ids {
		c := Change{ID: id, Outcome: Skipped}
		if status, changed := after[id]; changed {
			c = Change{ID: id, Outcome: outcomeOf(action, status), Status: status}
		}
		report(c)
	}
	return nil
}

// ChangeEach does the action to each task of a list, in a transaction of its own.
// A task that an app is completing is waited for.
func (o *Operator) ChangeEach(ctx context.Context, action Action, ids []int64, report func(Change)) error {
	do := jobs.Retry
	if action == Cancel {
		do = jobs.Cancel
	}
	for _, id := range ids {
		status, err := do(ctx, o.conn, id)
		switch {
		case err == nil:
			report(Change{ID: id, Outcome: outcomeOf(action, string(status)), Status: string(status)})
		case isOfTask(err):
			report(failure(id, err))
		default:
			return translate(fmt.Sprintf("%s task %d", action, id), err)
		}
	}
	return nil
}

// outcomeOf reads the status that sched.retry or sched.cancel returned.
func outcomeOf(action Action, status string) Outcome {
	switch {
	case action == Retry, status == "cancelled":
		return Done
	case status == "running":
		return Asked
	default:
		return Unchanged
	}
}

func failure(id int64, err error) Change {
	c := Change{ID: id, Outcome: Refused, Err: err}
	switch {
	case errors.Is(err, jobs.ErrTaskNotFound), sqlState(err) == codeNotFound:
		c.Outcome = Missing
	case errors.Is(err, jobs.ErrTaskRunning), sqlState(err) == codeRunning:
		c.Outcome, c.Status = Running, "running"
	case errors.Is(err, jobs.ErrUniqueConflict), sqlState(err) == codeConflict:
		c.Outcome = Conflict
	}
	return c
}

// isOfTask reports whether an error is about one task, so that the others can go
// on.
func isOfTask(err error) bool {
	switch sqlState(err) {
	case codeNotFound, codeRunning, codeConflict, codeInvalidArgument, codeLockNotAvailable, codeDeadlock, codeSerialization:
		return true
	}
	return false
}
