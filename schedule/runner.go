package schedule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sched-sidecar/sched/sql/dbq"
)

// turnLimit is how many schedules one turn sees to.
const turnLimit = 100

// What came of a schedule that was due.
const (
	ran     = "ran"
	waiting = "waiting"
	failed  = "failed"
)

// Runner takes the leader's turns. It is not safe for concurrent use; runners of several processes are.
type Runner struct {
	q       *dbq.Queries
	log     *slog.Logger
	metrics *metrics
}

// NewRunner returns a runner on a database.
func NewRunner(db dbq.DBTX, registerer prometheus.Registerer, log *slog.Logger) *Runner {
	return &Runner{q: dbq.New(db), log: log, metrics: newMetrics(registerer)}
}

// Turn enqueues what is due, and counts schedules for the metrics. One schedule that fails keeps no other from it; the error is that of Postgres being away, or of
// a statement that took too long.
func (r *Runner) Turn(ctx context.Context) error {
	due, err := r.q.ScheduleDue(ctx, turnLimit)
	if err != nil {
		return fmt.Errorf("read due schedules: %w", err)
	}
	var errs []error
	for _, s := range due {
		if err := r.see(ctx, s); err != nil {
			errs = append(errs, fmt.Errorf("schedule %s: %w", s.Name, err))
		}
	}
	return errors.Join(append(errs, r.count(ctx))...)
}

func (r *Runner) count(ctx context.Context) error {
	count, err := r.q.ScheduleCount(ctx)
	if err != nil {
		return fmt.Errorf("count schedules: %w", err)
	}
	r.metrics.waiting.Set(float64(count.Waiting))
	r.metrics.failed.Set(float64(count.Failed))
	return nil
}

// Rest forgets what the leader saw: somebody else leads now.
func (r *Runner) Rest() {
	r.metrics.waiting.Set(0)
	r.metrics.failed.Set(0)
}

// see works out when a schedule is due next, and enqueues its task if it is due.
func (r *Runner) see(ctx context.Context, s dbq.ScheduleDueRow) error {
	cron, err := Parse(s.Cron, s.Timezone)
	if err != nil {
		return r.fail(ctx, s, err)
	}
	next := cron.Next(s.Now)
	if next.IsZero() {
		return r.fail(ctx, s, fmt.Errorf("%w: cron %q: it is never due again", ErrInvalid, s.Cron))
	}
	if !s.NextRunAt.Valid {
		return r.mark(ctx, s, next, "", "")
	}
	answer, err := r.q.ScheduleRunDue(ctx, dbq.ScheduleRunDueParams{
		Name: s.Name, Cron: s.Cron, Timezone: s.Timezone, Due: s.NextRunAt.Time, Next: next,
	})
	if pgErr, rejected := hasCode(err, codeRejected); rejected {
		r.metrics.runs.WithLabelValues(waiting).Inc()
		return r.mark(ctx, s, s.NextRunAt.Time, pgErr.Message, "")
	}
	// Data that enqueue refuses, or that the tables do: trying again wouldn't help.
	if pgErr, refused := hasCode(err, "22", "23", "54"); refused {
		return r.fail(ctx, s, errors.New(pgErr.Message))
	}
	if err != nil {
		return err
	}
	switch answer.Outcome {
	case ran:
		late := s.Now.Sub(s.NextRunAt.Time)
		r.metrics.late.Observe(late.Seconds())
		r.metrics.runs.WithLabelValues(ran).Inc()
		r.log.InfoContext(ctx, "schedule run", slog.String("schedule", s.Name), slog.Int64("task_id", answer.TaskID),
			slog.Duration("late", late), slog.Time("next", next))
	case waiting:
		r.metrics.runs.WithLabelValues(waiting).Inc()
	}
	return nil
}

func (r *Runner) fail(ctx context.Context, s dbq.ScheduleDueRow, why error) error {
	r.metrics.runs.WithLabelValues(failed).Inc()
	r.log.WarnContext(ctx, "schedule can't be run until it is changed", slog.String("schedule", s.Name), slog.Any("error", why))
	return r.mark(ctx, s, s.NextRunAt.Time, "", why.Error())
}

func (r *Runner) mark(ctx context.Context, s dbq.ScheduleDueRow, next time.Time, waits, wrong string) error {
	text := func(s string) pgtype.Text { return pgtype.Text{String: s, Valid: s != ""} }
	_, err := r.q.ScheduleMark(ctx, dbq.ScheduleMarkParams{
		Name: s.Name, Cron: s.Cron, Timezone: s.Timezone, Due: s.NextRunAt,
		Next: pgtype.Timestamptz{Time: next, Valid: !next.IsZero()}, Waiting: text(waits), Error: text(wrong),
	})
	return err
}
