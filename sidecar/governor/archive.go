package governor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sched-sidecar/sched/sql/dbq"
)

const (
	// archiveFirst is when this begins after the sidecar began to lead: a fleet that starts has better things to do.
	archiveFirst   = 10 * time.Second
	archiveRest    = 10 * time.Second
	archiveMonths  = time.Minute
	archiveTimeout = 10 * time.Second
	archiveMost    = 1000 // tasks of each status that a statement looks at
	archiveLeast   = 50
	// archiveAnew is how often to begin again with the oldest: with what was locked, or kept for its unique key.
	archiveAnew = 5 * time.Minute
	// archivePatience is how long to wait for partitions that can't be made because the archive is in use.
	archivePatience = 10 * time.Minute
)

// archiveQueries are the statements of the archive.
type archiveQueries interface {
	ArchiveTasks(ctx context.Context, arg dbq.ArchiveTasksParams) ([]dbq.ArchiveTasksRow, error)
	ArchiveMonths(ctx context.Context) (dbq.ArchiveMonthsRow, error)
}

// archivist moves tasks that ended out of the hot table while this sidecar leads,
// and keeps the archive's partitions. It works at most half of the time.
type archivist struct {
	q      archiveQueries
	logger *slog.Logger
	moved  prometheus.Counter

	batch    int
	since    map[string]time.Time // by status: where to go on
	anew     time.Time            // when to begin again with the oldest
	months   time.Time            // when to look at the partitions
	patience time.Time            // until when to wait for them; zero: they are there
}

func newArchivist(q archiveQueries, logger *slog.Logger, registerer prometheus.Registerer) *archivist {
	a := &archivist{q: q, logger: logger, moved: prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: "sched", Name: "tasks_archived_total", Help: "Finished tasks that this sidecar, leading, moved to the archive.",
	})}
	registerer.MustRegister(a.moved)
	return a
}

// run archives until the context ends. What it remembers begins anew each time
// this sidecar leads.
func (a *archivist) run(ctx context.Context) {
	now := time.Now()
	a.batch, a.since, a.anew, a.months, a.patience = archiveMost, map[string]time.Time{}, now.Add(archiveAnew), now, now.Add(archivePatience)
	healthy := true
	for pause := archiveFirst; sleep(ctx, pause); {
		began := time.Now()
		more, err := a.turn(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && healthy {
			a.logger.WarnContext(ctx, "finished tasks could not be archived; trying again", slog.Any("error", err))
		}
		healthy = err == nil
		if pause = archiveRest; more {
			pause = time.Since(began)
		}
	}
}

// turn does what is due, and reports whether there is more to move.
func (a *archivist) turn(ctx context.Context) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, archiveTimeout)
	defer cancel()
	now := time.Now()
	if !now.Before(a.months) {
		err = a.keepMonths(ctx, now)
	}
	if now.Before(a.patience) {
		return false, err
	}
	if !now.Before(a.anew) {
		clear(a.since)
		a.anew = now.Add(archiveAnew)
	}
	more, moveErr := a.move(ctx)
	return more, errors.Join(err, moveErr)
}

func (a *archivist) keepMonths(ctx context.Context, now time.Time) error {
	did, err := a.q.ArchiveMonths(ctx)
	if err != nil {
		return fmt.Errorf("keep the archive's partitions: %w", err)
	}
	if did.Made > 0 || did.Dropped > 0 {
		a.logger.InfoContext(ctx, "partitions of the archive", slog.Int("made", int(did.Made)), slog.Int("dropped", int(did.Dropped)))
	}
	if !did.Waiting {
		a.months, a.patience = now.Add(archiveMonths), time.Time{}
	}
	return nil
}

// move moves a batch of each status. One that takes too long is smaller the next time.
func (a *archivist) move(ctx context.Context) (more bool, err error) {
	statuses := []string{"completed", "cancelled", "discarded"}
	since := make([]time.Time, len(statuses))
	for i, status := range statuses {
		since[i] = a.since[status]
	}
	rows, err := a.q.ArchiveTasks(ctx, dbq.ArchiveTasksParams{Statuses: statuses, Since: since, Max: int32(a.batch)})
	if err != nil {
		a.batch = max(a.batch/2, archiveLeast)
		return false, fmt.Errorf("archive finished tasks: %w", err)
	}
	for _, row := range rows {
		a.moved.Add(float64(row.Moved))
		more = more || int(row.Seen) >= a.batch
		next := row.Last
		if row.Moved == 0 && row.Seen > 0 && !next.After(a.since[row.Status]) {
			next = next.Add(time.Microsecond) // all of them ended at once, and stay
		}
		a.since[row.Status] = next
	}
	a.batch = min(2*a.batch, archiveMost)
	return more, nil
}
