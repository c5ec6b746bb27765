package bench

import (
	"context"
	"fmt"
	"time"
)

const (
	sampleBound = 5 // ms
	sampleTimes = 100
	// What the leader passes: the default of the setting max_pending, and its own budget.
	sampleSQL = "select count(*) from sched.count_waiting('', 1000, 50000, 1000000)"
	// backlogTimeout bounds filling a table with the backlog.
	backlogTimeout = 20 * time.Minute
)

// sampling measures what the leader's look at what waits takes, which it makes each
// second, in a queue with a long backlog.
func (r *Runner) sampling(ctx context.Context) (figures []Figure, err error) {
	db, err := r.server.createDatabase(ctx, "sampling")
	if err != nil {
		return nil, err
	}
	defer func() { err = closing(err, db.drop) }()
	if err := migrateSched(ctx, db); err != nil {
		return nil, err
	}
	if err := fillSched(ctx, db, 1); err != nil { // so that there is a queue
		return nil, err
	}
	if err := fillBacklog(ctx, db, r.config.Routing.Backlog); err != nil {
		return nil, err
	}
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	var medians []float64
	for i := range r.config.Rounds {
		took := make([]float64, sampleTimes)
		for k := range took {
			started := time.Now()
			if _, err := conn.Exec(ctx, sampleSQL); err != nil {
				return nil, fmt.Errorf("counting what waits: %w", err)
			}
			took[k] = time.Since(started).Seconds() * 1000
		}
		medians = append(medians, median(took))
		r.report.note("sampling round %d of %d: %.2f ms behind %d tasks", i+1, r.config.Rounds, medians[i], r.config.Routing.Backlog)
	}
	return []Figure{newFigure("routing.sampling.ms", median(medians), "ms", AtMost(sampleBound), r.config.Rounds)}, nil
}

// fillBacklog puts tasks into the queue without the checks of sched.enqueue_many,
// which would take minutes for millions.
func fillBacklog(ctx context.Context, db *database, tasks int) error {
	ctx, cancel := context.WithTimeout(ctx, backlogTimeout)
	defer cancel()
	_, err := db.pool.Exec(ctx, `insert into sched.river_job (kind, args, queue, priority, max_attempts)
		select $1, '{}', $2, 1 + n % 4, 25 from generate_series(1, $3::int) as n`, noopKind, schedQueue, tasks)
	if err != nil {
		return fmt.Errorf("filling sched's table: %w", err)
	}
	return nil
}
