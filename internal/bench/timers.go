package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/sched-sidecar/sched/worker"
)

// TimersConfig is how many tasks become due, and beside how many that don't.
type TimersConfig struct {
	Rate     int           // times a second that a task becomes due
	Duration time.Duration // of a round
	Future   int           // tasks in the table that are due in a day
	Lead     time.Duration // from enqueueing all of them to the first due time
}

func defaultTimers() TimersConfig {
	return TimersConfig{Rate: 1000, Duration: 20 * time.Second, Future: 100_000, Lead: 5 * time.Second}
}

const (
	timersBound   = 20 // ms
	timersTimeout = time.Minute
	// Of the due times, one in five is that of a second attempt: every fourth task
	// fails its first.
	retriedEvery = 4
	retriedShare = 1.0 / retriedEvery
	retryIn      = 500 * time.Millisecond
	retriedKind  = "bench.retried"
)

func (c TimersConfig) validate() error {
	if c.Rate < retriedEvery+1 || c.Rate > rateMax {
		return fmt.Errorf("--rate %d is out of range %d..%d", c.Rate, retriedEvery+1, rateMax)
	}
	if c.Duration < time.Second || c.Duration > durationMax {
		return fmt.Errorf("--duration %s is out of range 1s..%s", c.Duration, durationMax)
	}
	if c.Future < 0 || c.Future > tasksMax {
		return fmt.Errorf("--future %d is out of range 0..%d", c.Future, tasksMax)
	}
	if c.Lead < time.Second || c.Lead > time.Minute {
		return fmt.Errorf("a lead of %s is out of range 1s..1m", c.Lead)
	}
	return nil
}

// retriedHandler fails the first attempt of each task.
func retriedHandler(recorder *recorder) worker.Handler {
	return func(_ context.Context, task *worker.Task) (any, error) {
		recorder.record(task.ID)
		if task.Attempt == 1 {
			return nil, worker.RetryIn(retryIn, errors.New("the first attempt fails"))
		}
		return nil, nil
	}
}

func (r *Runner) timers(ctx context.Context) error {
	set := r.config.Timers
	err := r.report.limits("timers", []limit{
		{"due", strconv.Itoa(set.Rate) + " times a second, evenly, one in five of them a second attempt"},
		{"duration", set.Duration.String() + " a round"},
		{"future tasks in the table", strconv.Itoa(set.Future)},
		{"sidecar", "as shipped, with a session"},
		{"River", "as many tasks a second, scheduled ones alone"},
		{"River workers", strconv.Itoa(riverMaxWorkers)},
	})
	if err != nil {
		return err
	}
	var theirs, ours []latencies
	for i := range r.config.Rounds {
		river, err := r.riverTimers(ctx)
		if err != nil {
			return fmt.Errorf("river: %w", err)
		}
		sched, err := r.schedTimers(ctx)
		if err != nil {
			return fmt.Errorf("sched: %w", err)
		}
		theirs, ours = append(theirs, river), append(ours, sched)
		r.report.note("timers round %d of %d: river %s; sched %s", i+1, r.config.Rounds, river, sched)
	}
	p50, p99 := func(l latencies) float64 { return l.p50 }, func(l latencies) float64 { return l.p99 }
	return r.report.add(
		newFigure("timers.due.p50_ms", medianOf(ours, p50), "ms", Bound{}, r.config.Rounds),
		newFigure("timers.due.p99_ms", medianOf(ours, p99), "ms", AtMost(timersBound), r.config.Rounds),
		newFigure("timers.river.p50_ms", medianOf(theirs, p50), "ms", Bound{}, r.config.Rounds),
		newFigure("timers.river.p99_ms", medianOf(theirs, p99), "ms", Bound{}, r.config.Rounds))
}

// dueTimes are when a task is to start: once or, where it is retried, twice.
type dueTimes struct {
	id    int64
	times []time.Time
}

func (r *Runner) schedTimers(ctx context.Context) (result latencies, err error) {
	set := r.config.Timers
	db, err := r.server.createDatabase(ctx, "timers")
	if err != nil {
		return result, err
	}
	defer func() { err = closing(err, db.drop) }()
	if err := migrateSched(ctx, db); err != nil {
		return result, err
	}
	if err := db.schedule(ctx, time.Now().Add(24*time.Hour), 0, set.Future); err != nil {
		return result, err
	}
	if err := db.settle(ctx, schedTable); err != nil {
		return result, err
	}
	var options sidecarOptions
	app, err := r.startAppOver(ctx, protocolGRPC, &options, "-starts")
	if err != nil {
		return result, err
	}
	defer func() { err = closing(err, app.stop) }()
	sidecar, err := r.startSidecar(ctx, db, app, options)
	if err != nil {
		return result, err
	}
	defer func() { err = closing(err, sidecar.stop) }()

	tasks := int(float64(set.Rate) / (1 + retriedShare) * set.Duration.Seconds())
	step := set.Duration / time.Duration(tasks)
	now, err := db.clock(ctx)
	if err != nil {
		return result, err
	}
	begin := now.Add(set.Lead)
	if err := db.schedule(ctx, begin, step, tasks); err != nil {
		return result, err
	}
	if now, err = db.clock(ctx); err != nil {
		return result, err
	}
	if now.After(begin) {
		return result, fmt.Errorf("enqueueing %d tasks took longer than %s: the first were due by then", tasks, set.Lead)
	}
	starts, err := r.awaitTimers(ctx, app, tasks+tasks/retriedEvery)
	if err != nil {
		return result, err
	}
	due, err := db.dueTimes(ctx, begin, step, tasks)
	if err != nil {
		return result, err
	}
	offset, err := db.clockOffset(ctx)
	if err != nil {
		return result, err
	}
	return lateness(due, starts, offset)
}

// schedule enqueues n tasks, the first due at begin, each a step after the one
// before; every fourth will be retried. All at once, if step is 0, are of no kind
// that anybody works.
func (d *database) schedule(ctx context.Context, begin time.Time, step time.Duration, n int) error {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	const enqueue = `select count(*) from sched.enqueue_many((
		select jsonb_agg(jsonb_build_object('kind', case when $5::bigint = 0 then 'bench.future' when n % $6 = 0 then $2 else $1 end,
			'args', jsonb_build_object('n', n), 'run_at', $4::timestamptz + n * $5 * interval '1 microsecond'))
		from generate_series($3::int, $7::int) as n))`
	for done := 0; done < n; done += fillBatch {
		_, err := d.pool.Exec(ctx, enqueue, noopKind, retriedKind, done+1, begin, step.Microseconds(), retriedEvery, min(done+fillBatch, n))
		if err != nil {
			return fmt.Errorf("enqueueing for later: %w", err)
		}
	}
	return nil
}

// awaitTimers waits until n attempts have started and returns when each did.
func (r *Runner) awaitTimers(ctx context.Context, app *child, n int) (starts []taskStart, err error) {
	set := r.config.Timers
	ctx, cancel := context.WithTimeoutCause(ctx, set.Lead+set.Duration+timersTimeout, errors.New("the tasks didn't start in time"))
	defer cancel()
	if err := awaitStarts(ctx, app, n); err != nil {
		return nil, err
	}
	err = app.get(ctx, pathStarts, func(body io.Reader) error { return json.NewDecoder(body).Decode(&starts) })
	return starts, err
}

// dueTimes reads when the tasks of [database.schedule] were due; a second attempt,
// at the time that the settle of the first has written.
func (d *database) dueTimes(ctx context.Context, begin time.Time, step time.Duration, tasks int) ([]dueTimes, error) {
	rows, err := d.pool.Query(ctx, "select id, kind = $1, (args ->> 'n')::int, scheduled_at from "+schedTable+" where kind in ($1, $2)", retriedKind, noopKind)
	if err != nil {
		return nil, fmt.Errorf("reading due times: %w", err)
	}
	due, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (due dueTimes, err error) {
		var retried bool
		var n int
		var last time.Time
		if err := row.Scan(&due.id, &retried, &n, &last); err != nil {
			return due, err
		}
		due.times = []time.Time{begin.Add(time.Duration(n) * step)}
		if retried {
			due.times = append(due.times, last)
		}
		return due, nil
	})
	if err == nil && len(due) != tasks {
		err = fmt.Errorf("there are %d of %d tasks", len(due), tasks)
	}
	if err != nil {
		return nil, fmt.Errorf("reading due times: %w", err)
	}
	return due, nil
}

// lateness compares starts, by this machine's clock, with due times by the
// server's, which is offset ahead.
func lateness(due []dueTimes, starts []taskStart, offset time.Duration) (latencies, error) {
	slices.SortFunc(starts, func(a, b taskStart) int { return int(a.Nanos - b.Nanos) })
	started := make(map[int64][]int64, len(due))
	for _, start := range starts {
		started[start.TaskID] = append(started[start.TaskID], start.Nanos)
	}
	late := make([]float64, 0, len(starts))
	for _, task := range due {
		if got := len(started[task.id]); got != len(task.times) {
			return latencies{}, fmt.Errorf("task %d was due %d times and started %d times", task.id, len(task.times), got)
		}
		for i, at := range started[task.id] {
			late = append(late, millis(time.Duration(at-task.times[i].UnixNano())+offset))
		}
	}
	const half, most = 0.5, 0.99
	return latencies{p50: percentile(late, half), p99: percentile(late, most)}, nil
}

func (r *Runner) riverTimers(ctx context.Context) (result latencies, err error) {
	set := r.config.Timers
	db, err := r.server.createDatabase(ctx, "river")
	if err != nil {
		return result, err
	}
	defer func() { err = closing(err, db.drop) }()
	if err := migrateRiver(ctx, db.pool); err != nil {
		return result, err
	}
	inserter, err := newRiver(ctx, db.dsn, nil)
	if err != nil {
		return result, err
	}
	defer inserter.pool.Close()
	if err := inserter.schedule(ctx, time.Now().Add(24*time.Hour), 0, set.Future); err != nil {
		return result, err
	}
	if err := db.settle(ctx, riverTable); err != nil {
		return result, err
	}
	client, err := r.startRiverClient(ctx, db, "-starts")
	if err != nil {
		return result, err
	}
	defer func() { err = closing(err, client.stop) }()
	tasks := int(float64(set.Rate) * set.Duration.Seconds())
	if err := inserter.schedule(ctx, time.Now().Add(set.Lead), set.Duration/time.Duration(tasks), tasks); err != nil {
		return result, err
	}
	starts, err := r.awaitTimers(ctx, client, tasks)
	if err != nil {
		return result, err
	}
	// River moves scheduled_at to the time at which it found a task due.
	rows, err := db.pool.Query(ctx, "select id, (args ->> 'due')::bigint from "+riverTable+" where state <> 'scheduled'")
	if err != nil {
		return result, fmt.Errorf("reading due times: %w", err)
	}
	due, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (due dueTimes, err error) {
		var nanos int64
		err = row.Scan(&due.id, &nanos)
		due.times = []time.Time{time.Unix(0, nanos)}
		return due, err
	})
	if err != nil {
		return result, fmt.Errorf("reading due times: %w", err)
	}
	return lateness(due, starts, 0)
}

// schedule inserts n tasks, the first due at begin, each a step after the one
// before, by this machine's clock.
func (c *riverClient) schedule(ctx context.Context, begin time.Time, step time.Duration, n int) error {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	for done := 0; done < n; done += fillBatch {
		batch := make([]river.InsertManyParams, min(fillBatch, n-done))
		for i := range batch {
			due := begin.Add(time.Duration(done+i) * step)
			batch[i] = river.InsertManyParams{Args: noopArgs{N: done + i, Due: due.UnixNano()}, InsertOpts: &river.InsertOpts{ScheduledAt: due}}
		}
		if _, err := c.InsertManyFast(ctx, batch); err != nil {
			return fmt.Errorf("scheduling in river's table: %w", err)
		}
	}
	return nil
}
