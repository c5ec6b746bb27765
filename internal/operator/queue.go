package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sched-sidecar/sched/sql/dbq"
)

// Queue is a queue and what is in it. A count that is more has reached the bound
// it was counted to.
type Queue struct {
	Name            string          `json:"name"`
	Base            string          `json:"base"`
	Selector        json.RawMessage `json:"selector"`
	Protocol        string          `json:"protocol"`
	PausedAt        *time.Time      `json:"paused_at"`
	Available       int64           `json:"available"`
	Running         int64           `json:"running"`
	Scheduled       int64           `json:"scheduled"`
	Retryable       int64           `json:"retryable"`
	OldestAvailable *time.Time      `json:"oldest_available"`
	OldestSeconds   *float64        `json:"oldest_available_seconds"`
	Workers         int64           `json:"workers"` // that serve it and are alive
	AvailableIsMore bool            `json:"available_is_more"`
	RunningIsMore   bool            `json:"running_is_more"`
	TimedIsMore     bool            `json:"timed_is_more"` // scheduled and retryable

	Strategy       string   `json:"strategy"`
	Admission      string   `json:"admission"`
	MaxPending     *int64   `json:"max_pending"` // nil: the setting
	MaxRunning     *int64   `json:"max_running"` // nil: no limit
	Rate           *float64 `json:"rate"`        // nil: no limit
	Burst          *int64   `json:"burst"`
	Assigned       int64    `json:"assigned"` // workers, by the leader
	Pressure       string   `json:"pressure"` // green while nobody leads
	PressureReason string   `json:"pressure_reason"`
	Unroutable     string   `json:"unroutable"` // what no living worker offers

	JSON json.RawMessage `json:"-"`
}

// Queues lists queues by name: up to limit of them after a name, of those named
// and derived from them, or all. It counts up to maxCount available tasks in each,
// and as many running ones and ones with a time over all.
func (o *Operator) Queues(ctx context.Context, names []string, after string, limit, maxCount int) ([]Queue, error) {
	var rows [][]byte
	err := o.read(ctx, "listing queues", func(q *dbq.Queries) (err error) {
		rows, err = q.QueueList(ctx, dbq.QueueListParams{
			Names: names, AfterName: nullText(after), Max: int32(limit), MaxCount: int32(maxCount),
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return decodeAll(rows, func(q *Queue, row json.RawMessage) { q.JSON = row })
}

// QueueChange is what a pause or its end came to.
type QueueChange struct {
	Name     string     `json:"name"`
	Paused   bool       `json:"paused"`
	PausedAt *time.Time `json:"paused_at"` // since when
	Changed  bool       `json:"changed"`   // false: it was so already
}

// Pause keeps tasks of queues from being claimed, until [Operator.Resume]: of the
// queues named and those derived from them, or with exact of the ones named alone.
// What runs goes on. It returns [ErrNotFound] for a name without a queue, and then
// nothing is paused.
func (o *Operator) Pause(ctx context.Context, names []string, exact bool) ([]QueueChange, error) {
	if err := o.known(ctx, names, exact); err != nil {
		return nil, err
	}
	return o.pause(ctx, dbq.QueuePauseParams{Names: names, Exact: exact})
}

// PauseAll is [Operator.Pause] for all queues that there are.
func (o *Operator) PauseAll(ctx context.Context) ([]QueueChange, error) {
	return o.pause(ctx, dbq.QueuePauseParams{Everything: true})
}

func (o *Operator) pause(ctx context.Context, params dbq.QueuePauseParams) ([]QueueChange, error) {
	rows, err := o.q.QueuePause(ctx, params)
	if err != nil {
		return nil, translate("pausing queues", err)
	}
	changes := make([]QueueChange, len(rows))
	for i, row := range rows {
		changes[i] = QueueChange{Name: row.Name, Paused: true, PausedAt: &row.PausedAt, Changed: row.Changed}
	}
	return changes, nil
}

// Resume ends the pause of queues. As [Operator.Pause].
func (o *Operator) Resume(ctx context.Context, names []string, exact bool) ([]QueueChange, error) {
	if err := o.known(ctx, names, exact); err != nil {
		return nil, err
	}
	return o.resume(ctx, dbq.QueueResumeParams{Names: names, Exact: exact})
}

// ResumeAll is [Operator.Resume] for all queues that there are.
func (o *Operator) ResumeAll(ctx context.Context) ([]QueueChange, error) {
	return o.resume(ctx, dbq.QueueResumeParams{Everything: true})
}

func (o *Operator) resume(ctx context.Context, params dbq.QueueResumeParams) ([]QueueChange, error) {
	rows, err := o.q.QueueResume(ctx, params)
	if err != nil {
		return nil, translate("resuming queues", err)
	}
	changes := make([]QueueChange, len(rows))
	for i, row := range rows {
		changes[i] = QueueChange{Name: row.Name, Changed: row.Changed}
	}
	return changes, nil
}

// SetQueue configures the queues with these very names: what values has is set,
// nil clears it or gives back the default, the rest stays. It returns the rows, and [ErrNotFound] for a name without a queue;
// then nothing is changed.
func (o *Operator) SetQueue(ctx context.Context, names []string, values map[string]any) ([]json.RawMessage, error) {
	if err := o.known(ctx, names, true); err != nil {
		return nil, err
	}
	text, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	rows, err := o.q.QueueSet(ctx, dbq.QueueSetParams{Values: text, Names: names})
	if err != nil {
		return nil, translate("configuring queues", err)
	}
	list := make([]json.RawMessage, len(rows))
	for i, row := range rows {
		list[i] = row
	}
	return list, nil
}

// known refuses names without a queue: a typing error would pause nothing, and
// say that all is well.
func (o *Operator) known(ctx context.Context, names []string, exact bool) error {
	rows, err := o.q.QueueKnown(ctx, dbq.QueueKnownParams{Names: names, Exact: exact})
	if err != nil {
		return translate("looking up queues", err)
	}
	var unknown []string
	for _, name := range names {
		if !slices.Contains(rows, name) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return fmt.Errorf("queue %s: %w; a queue is made when its first task is enqueued: see sched queues", strings.Join(unknown, ", "), ErrNotFound)
	}
	return nil
}
