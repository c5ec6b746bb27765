package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// EnqueueConfig is how single-row enqueues are timed.
type EnqueueConfig struct {
	Connections []int         // numbers of connections to measure with
	Duration    time.Duration // of each contender in a round
}

func defaultEnqueue() EnqueueConfig {
	return EnqueueConfig{Connections: []int{8, 32}, Duration: 2 * time.Second}
}

const (
	enqueueWarmUp      = 10 // transactions of each connection before the clock starts
	enqueueListeners   = 3  // as three sidecars would listen
	enqueueQueue       = "default"
	enqueueFewWorkers  = 3
	enqueueManyWorkers = 1000
	enqueueBusyBound   = 0.85
	enqueueEqualBound  = 0.95
)

func (c EnqueueConfig) validate() error {
	if c.Duration < 50*time.Millisecond || c.Duration > durationMax {
		return fmt.Errorf("--duration %s is out of range 50ms..%s", c.Duration, durationMax)
	}
	const most = 200
	for _, n := range c.Connections {
		if n < 1 || n > most {
			return fmt.Errorf("--connections %d is out of range 1..%d", n, most)
		}
	}
	if len(c.Connections) == 0 {
		return errors.New("--connections: none given")
	}
	return nil
}

// enqueuer is one way to add a task, and the state of the queue meanwhile.
type enqueuer struct {
	name    string
	sql     string // gets kind, args and queue; committed by itself
	workers int    // assigned to the queue; 0: nobody knows, as before the first leader
	busy    bool   // one of them polls by itself, so that nobody has to be woken
}

const (
	insertSQL  = "insert into sched.river_job (kind, args, queue) values ($1, $2, $3)"
	enqueueSQL = "select sched.enqueue($1, $2, queue => $3)"
	// blindSQL calls a copy of sched.enqueue that doesn't look at its queue.
	blindSQL = "select sched.enqueue_blind($1, $2, queue => $3)"
)

// enqueuers take turns in this order.
func enqueuers() []enqueuer {
	return []enqueuer{
		{name: "insert", sql: insertSQL, workers: enqueueFewWorkers, busy: true},
		{name: "busy", sql: enqueueSQL, workers: enqueueFewWorkers, busy: true},
		{name: "blind", sql: blindSQL, workers: enqueueFewWorkers, busy: true},
		{name: "quiet", sql: enqueueSQL, workers: enqueueFewWorkers},
		{name: "workers1000", sql: enqueueSQL, workers: enqueueManyWorkers},
		{name: "notify", sql: enqueueSQL},
	}
}

// enqueue measures single-row enqueues, each a transaction of its own, beside
// bare INSERTs into the same table.
func (r *Runner) enqueue(ctx context.Context) (err error) {
	set := r.config.Enqueue
	err = r.report.limits("enqueue", []limit{
		{"connections", strings.Trim(fmt.Sprint(set.Connections), "[]")},
		{"duration", set.Duration.String() + " for each contender, in turns"},
		{"statements", "prepared, one a transaction"},
		{"baseline", insertSQL},
		{"beside River", fmt.Sprintf("%d connections that begin, add one task and commit; one that does with %d", singleConnections, bulkTasks)},
		{"sidecars", "none; the queue's row is as a leader writes it, and " + fmt.Sprint(enqueueListeners) + " connections listen"},
	})
	if err != nil {
		return err
	}
	db, err := r.server.createDatabase(ctx, "enqueue")
	if err != nil {
		return err
	}
	defer func() { err = closing(err, db.drop) }()
	if err := migrateSched(ctx, db); err != nil {
		return err
	}
	if err := db.prepareEnqueue(ctx); err != nil {
		return err
	}
	stop, err := db.listen(ctx, enqueueListeners)
	if err != nil {
		return err
	}
	defer func() { err = closing(err, stop) }()

	rates := map[int][]map[string]float64{} // by number of connections, by round
	for i := range r.config.Rounds {
		for _, connections := range set.Connections {
			round := map[string]float64{}
			for _, c := range enqueuers() {
				if round[c.name], err = db.enqueueRate(ctx, c, connections, set.Duration); err != nil {
					return fmt.Errorf("%s with %d connections: %w", c.name, connections, err)
				}
			}
			rates[connections] = append(rates[connections], round)
			r.report.note("enqueue round %d of %d, %d connections: insert %.0f/s; of it busy %.2f, blind %.2f, quiet %.2f, with 1000 workers %.2f, always notified %.2f",
				i+1, r.config.Rounds, connections, round["insert"], round["busy"]/round["insert"], round["blind"]/round["insert"],
				round["quiet"]/round["insert"], round["workers1000"]/round["insert"], round["notify"]/round["insert"])
		}
	}
	if err := r.report.add(enqueueFigures(rates, r.config.Rounds)...); err != nil {
		return err
	}
	figures, err := r.enqueueRiver(ctx, db)
	if err != nil {
		return err
	}
	return r.report.add(figures...)
}

// enqueueFigures compares what was measured in the same round with as many
// connections. Beside the INSERT the worst number of connections counts; for what
// must be equal, all rounds together, which is less noise.
func enqueueFigures(rates map[int][]map[string]float64, rounds int) []Figure {
	ratio := func(a, b string, worst bool) float64 {
		var all, medians []float64
		for _, list := range rates {
			ratios := make([]float64, len(list))
			for i, round := range list {
				ratios[i] = round[a] / round[b]
			}
			all, medians = append(all, ratios...), append(medians, median(ratios))
		}
		if !worst {
			return median(all)
		}
		least := medians[0]
		for _, m := range medians {
			least = min(least, m)
		}
		return least
	}
	return []Figure{
		newFigure("enqueue.sql.vs_insert", ratio("quiet", "insert", true), "ratio", Bound{}, rounds),
		newFigure("enqueue.sql_busy.vs_insert", ratio("busy", "insert", true), "ratio", AtLeast(enqueueBusyBound), rounds),
		newFigure("enqueue.notify_always.vs_insert", ratio("notify", "insert", true), "ratio", Bound{}, rounds),
		newFigure("enqueue.pressure.vs_blind", ratio("busy", "blind", false), "ratio", AtLeast(enqueueEqualBound), rounds),
		newFigure("routing.workers1000.enqueue_ratio", ratio("workers1000", "quiet", false), "ratio", AtLeast(enqueueEqualBound), rounds),
	}
}

// What sched.enqueue reads of a queue's row for a plain task, and what a copy has
// instead that reads none.
const (
	readsQueue  = "FROM sched.queue AS q\n        WHERE"
	readsDirect = "AND q.direct"
	readsNone   = "FROM (SELECT coalesce(enqueue.queue, 'default') AS name) AS q\n        WHERE"
)

// prepareEnqueue makes the queue, and a copy of sched.enqueue that doesn't look at it.
func (d *database) prepareEnqueue(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	var body string
	err := d.pool.QueryRow(ctx, "select pg_get_functiondef(oid) from pg_proc where pronamespace = 'sched'::regnamespace and proname = 'enqueue'").Scan(&body)
	if err != nil {
		return fmt.Errorf("reading sched.enqueue: %w", err)
	}
	for _, part := range []string{readsQueue, readsDirect} {
		if strings.Count(body, part) != 1 {
			return fmt.Errorf("sched.enqueue has no %q to leave out", part)
		}
	}
	blind := strings.NewReplacer(readsDirect, "", readsQueue, readsNone).Replace(body)
	blind = strings.NewReplacer("sched.enqueue(", "sched.enqueue_blind(", "enqueue.", "enqueue_blind.").Replace(blind)
	for _, sql := range []string{blind, "select sched.enqueue('warm', queue => '" + enqueueQueue + "')", "vacuum analyze"} {
		if _, err := d.pool.Exec(ctx, sql); err != nil {
			return fmt.Errorf("setting up: %w", err)
		}
	}
	return nil
}

// setQueue makes the queue's row, and its assignments, what the leader would for
// a contender.
func (d *database) setQueue(ctx context.Context, c enqueuer) error {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	const wakeMax = 16
	for _, statement := range []struct {
		sql  string
		args []any
	}{
		{"truncate sched.river_job, sched.assignment", nil},
		{`insert into sched.assignment (queue, worker_id, weight, reason, version)
			select $1, 'w-' || lpad(n::text, 12, '0'), 100, 'bench', 1 from generate_series(1, $2::int) as n`, []any{enqueueQueue, c.workers}},
		{
			`update sched.queue set workers = $2, wake = case when $3 then '{}' when $2::int > 0 then array(
			select worker_id from sched.assignment where queue = $1 order by worker_id limit $4) end where name = $1`,
			[]any{enqueueQueue, c.workers, c.busy, wakeMax},
		},
		{"update sched.fleet set computed_at = clock_timestamp() + interval '1 day'", nil},
		{"vacuum analyze sched.queue, sched.fleet, sched.assignment", nil},
	} {
		if _, err := d.pool.Exec(ctx, statement.sql, statement.args...); err != nil {
			return fmt.Errorf("setting the queue's row: %w", err)
		}
	}
	return d.settle(ctx, "sched.river_job")
}

// enqueueRate is how many tasks a second a contender adds.
func (d *database) enqueueRate(ctx context.Context, c enqueuer, connections int, duration time.Duration) (rate float64, err error) {
	if err := d.setQueue(ctx, c); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, duration+queryTimeout, errors.New("it took too long"))
	defer cancel()
	conns := make([]*pgx.Conn, connections)
	defer func() {
		for _, conn := range conns {
			if conn != nil {
				_ = conn.Close(context.WithoutCancel(ctx)) // it has done its work
			}
		}
	}()
	args := []byte(`{"to": 7}`)
	for i := range conns {
		if conns[i], err = pgx.Connect(ctx, d.dsn); err != nil {
			return 0, err
		}
		for range enqueueWarmUp {
			if _, err := conns[i].Exec(ctx, c.sql, noopKind, args, enqueueQueue); err != nil {
				return 0, err
			}
		}
	}
	var added atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	began := time.Now()
	for _, conn := range conns {
		wg.Go(func() {
			for time.Since(began) < duration {
				if _, err := conn.Exec(ctx, c.sql, noopKind, args, enqueueQueue); err != nil {
					failed.CompareAndSwap(nil, &err)
					return
				}
				added.Add(1)
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	var stored int64
	if err := d.pool.QueryRow(ctx, "select count(*) from sched.river_job where queue = $1 and state = 'available'", enqueueQueue).Scan(&stored); err != nil {
		return 0, err
	}
	if want := added.Load() + int64(connections*enqueueWarmUp); stored != want {
		return 0, fmt.Errorf("%d of %d tasks are in the table", stored, want)
	}
	return float64(added.Load()) / took.Seconds(), nil
}

// listen opens connections that hear of new tasks, until stop.
func (d *database) listen(ctx context.Context, n int) (stop func() error, err error) {
	listening, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	stop = func() error {
		cancel()
		wg.Wait()
		return nil
	}
	for range n {
		conn, err := pgx.Connect(ctx, d.dsn)
		if err == nil {
			_, err = conn.Exec(ctx, `listen "sched.river_insert"`)
		}
		if err != nil {
			return nil, closing(fmt.Errorf("listening: %w", err), stop)
		}
		wg.Go(func() {
			defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
			for {
				if _, err := conn.WaitForNotification(listening); err != nil {
					return
				}
			}
		})
	}
	return stop, nil
}
