package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	assignTimeout = 2 * time.Minute // until every sidecar is assigned to the queue
	assignPoll    = 50 * time.Millisecond
	schedQueue    = "default" // where enqueues go that name no queue
)

// troop is a database, an app and the sidecars beside it.
type troop struct {
	r        *Runner
	db       *database
	app      *child
	sidecars []*child
}

// muster starts a sidecar for each number of slots, 0 for as many as it ships with,
// and waits until all of them are assigned to the queue. prepare, if any, is SQL
// that runs before.
func (r *Runner) muster(ctx context.Context, slots []int, prepare string, app ...string) (t *troop, err error) {
	t = &troop{r: r}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.stop())
		}
	}()
	if t.db, err = r.server.createDatabase(ctx, "routing"); err != nil {
		return t, err
	}
	if err := migrateSched(ctx, t.db); err != nil {
		return t, err
	}
	if err := fillSched(ctx, t.db, 1); err != nil { // so that there is a queue to be assigned to
		return t, err
	}
	if prepare != "" {
		if _, err := t.db.pool.Exec(ctx, prepare); err != nil {
			return t, fmt.Errorf("%s: %w", prepare, err)
		}
	}
	if t.app, err = r.startApp(ctx, app...); err != nil {
		return t, err
	}
	for _, n := range slots {
		sidecar, err := r.startSidecar(ctx, t.db, t.app, sidecarOptions{slots: n})
		if err != nil {
			return t, err
		}
		t.sidecars = append(t.sidecars, sidecar)
	}
	return t, t.db.awaitAssigned(ctx, len(slots))
}

// stop ends all that muster started.
func (t *troop) stop() error {
	var errs []error
	for _, sidecar := range t.sidecars {
		errs = append(errs, sidecar.stop())
	}
	if t.app != nil {
		errs = append(errs, t.app.stop())
	}
	if t.db != nil {
		errs = append(errs, t.db.drop())
	}
	return errors.Join(errs...)
}

// awaitAssigned waits until n workers are assigned to the queue and the leader's
// view of it is fresh.
func (d *database) awaitAssigned(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, assignTimeout, fmt.Errorf("%d sidecars weren't assigned to the queue within %s", n, assignTimeout))
	defer cancel()
	return pollUntil(ctx, assignPoll, func(ctx context.Context) (ready bool, err error) {
		err = d.pool.QueryRow(ctx, `
			select (select count(*) from sched.assignment where queue = $1) = $2
				and coalesce((select workers = $2 from sched.queue where name = $1), false)
				and coalesce((select computed_at > now() - interval '3 seconds' from sched.fleet), false)
				and not exists (select from sched.river_job where state <> 'completed')`, schedQueue, n).Scan(&ready)
		return ready, err
	})
}

// enqueueOne adds a task, committed when it returns.
func enqueueOne(ctx context.Context, conn *pgx.Conn, kind string) (id int64, err error) {
	if err = conn.QueryRow(ctx, "select sched.enqueue($1)", kind).Scan(&id); err != nil {
		return 0, fmt.Errorf("enqueue: %w", err)
	}
	return id, nil
}

// paced enqueues tasks of a kind, so many a second, for a time. It returns how many
// it enqueued, and how long that took.
func (d *database) paced(ctx context.Context, kind string, rate float64, length time.Duration) (int, time.Duration, error) {
	begin := time.Now()
	total, err := d.staged(ctx, kind, begin, stage{rate, length})
	return total, time.Since(begin), err
}

// stage is so many tasks a second for a time.
type stage struct {
	rate   float64
	length time.Duration
}

// tasks is how many tasks a stage has.
func (s stage) tasks() int { return int(s.rate * s.length.Seconds()) }

// dueIn is when the nth task is due, counted from the begin of the first stage.
func dueIn(stages []stage, n int) (due time.Duration) {
	for _, s := range stages {
		if n < s.tasks() {
			return due + time.Duration(float64(n)/s.rate*float64(time.Second))
		}
		n -= s.tasks()
		due += s.length
	}
	return due
}

// staged enqueues tasks of a kind by stages that follow each other from begin on,
// each task in a transaction of its own on one of a few connections. A producer that
// is late goes on at once until it has caught up. It returns how many it enqueued.
func (d *database) staged(ctx context.Context, kind string, begin time.Time, stages ...stage) (int, error) {
	const producers = 4
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	total := 0
	for _, s := range stages {
		total += s.tasks()
	}
	results := make(chan error, producers)
	for p := range producers {
		go func() {
			err := d.produce(ctx, kind, total, p, producers, func(n int) time.Time { return begin.Add(dueIn(stages, n)) })
			if err != nil {
				cancel(err)
			}
			results <- err
		}()
	}
	var errs []error
	for range producers {
		errs = append(errs, <-results)
	}
	return total, errors.Join(errs...)
}

// produce enqueues every stride-th of total tasks from the first on, each when it
// is due.
func (d *database) produce(ctx context.Context, kind string, total, first, stride int, due func(int) time.Time) error {
	conn, err := pgx.Connect(ctx, d.dsn)
	if err != nil {
		return fmt.Errorf("producer: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for n := first; n < total; n += stride {
		if err := pause(ctx, max(0, time.Until(due(n)))); err != nil {
			return err
		}
		if _, err := enqueueOne(ctx, conn, kind); err != nil {
			return err
		}
	}
	return nil
}

// clock reads the server's.
func (d *database) clock(ctx context.Context) (now time.Time, err error) {
	if err = d.pool.QueryRow(ctx, "select clock_timestamp()").Scan(&now); err != nil {
		return now, fmt.Errorf("reading the server's clock: %w", err)
	}
	return now, nil
}

// awaitCompleted waits until no task is left.
func (d *database) awaitCompleted(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, drainTimeout, errors.New("the tasks weren't all completed in time"))
	defer cancel()
	return pollUntil(ctx, assignPoll, func(ctx context.Context) (done bool, err error) {
		err = d.pool.QueryRow(ctx, "select not exists (select from "+schedTable+" where state <> 'completed')").Scan(&done)
		return done, err
	})
}

// jitter is a random time up to most.
func jitter(most time.Duration) time.Duration { return rand.N(most) }
