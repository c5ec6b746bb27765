package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/sched-sidecar/sched/sql/dbq"
)

// Schedule is a row of sched.schedule: a periodic task.
type Schedule struct {
	Name          string     `json:"name"`
	Description   string     `json:"description"`
	Cron          string     `json:"cron"`
	Timezone      string     `json:"timezone"`
	Kind          string     `json:"kind"`
	Paused        bool       `json:"paused"`
	NextRunAt     *time.Time `json:"next_run_at"`
	LastRunAt     *time.Time `json:"last_run_at"`
	LastTaskID    *int64     `json:"last_task_id"`
	WaitingReason string     `json:"waiting_reason"`
	Error         string     `json:"error"`

	JSON json.RawMessage `json:"-"` // the row
}

// Schedules lists schedules by name: those named, or up to limit of them after a name.
func (o *Operator) Schedules(ctx context.Context, names []string, after string, limit int) ([]Schedule, error) {
	var rows [][]byte
	err := o.read(ctx, "listing schedules", func(q *dbq.Queries) (err error) {
		rows, err = q.ScheduleList(ctx, dbq.ScheduleListParams{Names: names, AfterName: after, MaxSchedules: int32(limit)})
		return err
	})
	if err != nil {
		return nil, err
	}
	return decodeAll(rows, func(s *Schedule, row json.RawMessage) { s.JSON = row })
}

// ScheduleSpec is what a schedule is to be. What is zero or nil stays as it is; in a new one it is the default.
type ScheduleSpec struct {
	Name, Cron, Kind      string // required
	Timezone, Description string
	Args                  json.RawMessage
	Queue, Protocol       string
	Selector              map[string]string
	Priority, MaxAttempts int
	Timeout               time.Duration
	Overlap, Pinned       *bool
}

// SetSchedule makes a schedule, or changes one.
func (o *Operator) SetSchedule(ctx context.Context, spec ScheduleSpec) (Schedule, error) {
	params := dbq.ScheduleSetParams{
		Name: spec.Name, Cron: spec.Cron, Kind: spec.Kind, Timezone: nullText(spec.Timezone), Description: nullText(spec.Description),
		Args: spec.Args, Queue: nullText(spec.Queue), Protocol: nullText(spec.Protocol),
		Priority:    pgtype.Int2{Int16: int16(spec.Priority), Valid: spec.Priority != 0},
		TimeoutUs:   pgtype.Int8{Int64: spec.Timeout.Microseconds(), Valid: spec.Timeout != 0},
		MaxAttempts: pgtype.Int4{Int32: int32(spec.MaxAttempts), Valid: spec.MaxAttempts != 0},
		Overlap:     nullFlag(spec.Overlap), Pinned: nullFlag(spec.Pinned),
	}
	if spec.Selector != nil {
		text, err := json.Marshal(spec.Selector)
		if err != nil {
			return Schedule{}, err
		}
		params.Selector = text
	}
	row, err := o.q.ScheduleSet(ctx, params)
	if err != nil {
		return Schedule{}, translate("schedule "+spec.Name, err)
	}
	s := Schedule{JSON: row}
	if err := json.Unmarshal(row, &s); err != nil {
		return Schedule{}, fmt.Errorf("reading row %s: %w", row, err)
	}
	return s, nil
}

func nullFlag(flag *bool) pgtype.Bool {
	if flag == nil {
		return pgtype.Bool{}
	}
	return pgtype.Bool{Bool: *flag, Valid: true}
}

// PauseSchedule pauses or resumes a schedule; [ErrNotFound] if there is none.
func (o *Operator) PauseSchedule(ctx context.Context, name string, paused bool) error {
	_, err := o.q.SchedulePause(ctx, dbq.SchedulePauseParams{Paused: paused, Name: name})
	return translate("schedule "+name, err)
}

// RunSchedule enqueues a schedule's task now and returns its id; [ErrNotFound] if there is none.
func (o *Operator) RunSchedule(ctx context.Context, name string) (int64, error) {
	id, err := o.q.ScheduleRun(ctx, name)
	return id, translate("schedule "+name, err)
}

// DeleteSchedule removes a schedule; [ErrNotFound] if there is none.
func (o *Operator) DeleteSchedule(ctx context.Context, name string) error {
	_, err := o.q.ScheduleDelete(ctx, name)
	return translate("schedule "+name, err)
}
