package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/sched-sidecar/sched/sql/dbq"
)

// Task is a row of sched.task.
type Task struct {
	ID          int64           `json:"id"`
	Kind        string          `json:"kind"`
	Queue       string          `json:"queue"`
	Status      string          `json:"status"`
	StartTime   *time.Time      `json:"start_time"`
	EndTime     *time.Time      `json:"end_time"`
	WorkerID    string          `json:"worker_id"`
	Attempt     int             `json:"attempt"`
	MaxAttempts int             `json:"max_attempts"`
	Priority    int             `json:"priority"`
	RunAt       time.Time       `json:"run_at"`
	CreatedAt   time.Time       `json:"created_at"`
	Args        json.RawMessage `json:"args"`
	Output      json.RawMessage `json:"output"`
	Error       string          `json:"error"`
	Selector    json.RawMessage `json:"selector"`
	Protocol    string          `json:"protocol"`
	Batch       string          `json:"batch"`
	UniqueKey   string          `json:"unique_key"`
	Headers     json.RawMessage `json:"headers"`
	Lost        int             `json:"lost"`
	Snoozes     int             `json:"snoozes"`
	EnqueuedBy  string          `json:"enqueued_by"`
	EnqueuedApp string          `json:"enqueued_app"`
	Timeout     string          `json:"timeout"` // as Postgres writes an interval
	Attempts    []Attempt       `json:"attempts"`

	JSON json.RawMessage `json:"-"` // the row
}

// Attempt is a row of sched.attempt.
type Attempt struct {
	Attempt   int        `json:"attempt"`
	WorkerID  string     `json:"worker_id"`
	StartTime time.Time  `json:"start_time"`
	EndTime   *time.Time `json:"end_time"`
	Outcome   string     `json:"outcome"`
	Error     string     `json:"error"`
}

func keepTask(t *Task, row json.RawMessage) { t.JSON = row }

// Tasks lists the tasks of a filter, up to limit of them and from a cursor on:
// the newest first, or the latest start if the filter is about starts. Next is
// the cursor of the next page, empty after the last.
func (o *Operator) Tasks(ctx context.Context, f Filter, after string, limit int) (tasks []Task, next string, err error) {
	from, err := parseCursor(after, f.byStart())
	if err != nil {
		return nil, "", err
	}
	r, err := o.resolve(ctx, f)
	if err != nil {
		return nil, "", err
	}
	var rows [][]byte
	err = o.read(ctx, "listing tasks", func(q *dbq.Queries) error {
		rows, err = r.list(ctx, q, from, limit+1) // one more says whether there is a next page
		return err
	})
	if err != nil {
		return nil, "", err
	}
	more := len(rows) > limit
	if tasks, err = decodeAll(rows[:min(limit, len(rows))], keepTask); err != nil {
		return nil, "", err
	}
	if more {
		last := tasks[len(tasks)-1]
		end := cursor{id: last.ID}
		if f.byStart() {
			end.start = *last.StartTime
		}
		next = end.String()
	}
	return tasks, next, nil
}

// list picks the statement whose order an index has.
func (r resolved) list(ctx context.Context, q *dbq.Queries, from cursor, limit int) ([][]byte, error) {
	var statuses pgtype.Text
	if len(r.Statuses) > 0 {
		statuses = nullText(r.statusArray())
	}
	switch {
	case r.byStart():
		return q.TaskListByStart(ctx, dbq.TaskListByStartParams{
			Statuses: r.statusArray(), Since: nullTime(r.Since), Until: nullTime(r.Until),
			Kinds: r.Kinds, Queues: r.queues, Bases: r.bases, Batch: nullText(r.Batch), WorkerID: nullText(r.Worker),
			AfterID: nullID(from.id), AfterStart: nullTime(from.start), Max: int32(limit),
		})
	case r.Batch != "":
		return q.TaskListOfBatch(ctx, dbq.TaskListOfBatchParams{
			Batch: r.Batch, Statuses: statuses, Kinds: r.Kinds, Queues: r.queues, Bases: r.bases,
			AfterID: nullID(from.id), Max: int32(limit),
		})
	default:
		return q.TaskList(ctx, dbq.TaskListParams{
			Statuses: statuses, Kinds: r.Kinds, Queues: r.queues, Bases: r.bases,
			AfterID: nullID(from.id), Max: int32(limit),
		})
	}
}

// Task returns one task with its latest attempts, up to maxAttempts of them. It
// returns [ErrNotFound] when there is no such task.
func (o *Operator) Task(ctx context.Context, id int64, maxAttempts int) (Task, error) {
	var row []byte
	err := o.read(ctx, fmt.Sprintf("task %d", id), func(q *dbq.Queries) (err error) {
		row, err = q.TaskWhole(ctx, dbq.TaskWholeParams{ID: id, MaxAttempts: int32(maxAttempts)})
		return err
	})
	if err != nil {
		return Task{}, err
	}
	list, err := decodeAll([][]byte{row}, keepTask)
	if err != nil {
		return Task{}, err
	}
	return list[0], nil
}

// Explain says in words, a statement a line, why a task waits or what became of
// it. Times are the reader's. It returns [ErrNotFound] when there is no such task.
func (o *Operator) Explain(ctx context.Context, id int64) ([]string, error) {
	var lines []string
	err := o.read(ctx, fmt.Sprintf("task %d", id), func(q *dbq.Queries) (err error) {
		if err := q.TimeZone(ctx, zoneOf(time.Now())); err != nil {
			return err
		}
		lines, err = q.TaskExplain(ctx, id)
		return err
	})
	return lines, err
}

// zoneOf is the offset of a local time as Postgres takes a time zone: a name for
// it, and the offset counted westwards.
func zoneOf(t time.Time) string {
	offset := t.Format("-07:00")
	west := map[byte]string{'+': "-", '-': "+"}[offset[0]] + offset[1:]
	return "<" + offset + ">" + west
}
