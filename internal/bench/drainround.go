package bench

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"
)

// drainRound fills a fresh database, has it drained and says how that went.
// while, if any, runs beside the drain.
func (r *Runner) drainRound(ctx context.Context, c contender, while func(context.Context, *database, *crew) error) (result drained, err error) {
	tasks := r.config.Drain.Tasks
	if c.tasks > 0 {
		tasks = c.tasks
	}
	db, err := r.server.createDatabase(ctx, c.name)
	if err != nil {
		return result, err
	}
	defer func() { err = closing(err, db.drop) }()
	if err := c.fill(ctx, db, tasks); err != nil {
		return result, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, drainTimeout+time.Duration(tasks)*drainPerTask,
		fmt.Errorf("%d tasks weren't drained in time", tasks))
	defer cancel()

	before := r.meter()
	crew, err := c.start(ctx, db, sidecarOptions{slots: r.config.Drain.Slots, pprof: while != nil})
	if err != nil {
		return result, err
	}
	running := true
	defer func() {
		if running {
			err = closing(err, crew.stop)
		}
	}()
	beside := make(chan error, 1)
	go func() {
		if while == nil {
			beside <- nil
			return
		}
		beside <- while(ctx, db, crew)
	}()
	end, err := awaitDrained(ctx, db, c, crew, tasks)
	if err != nil {
		cancel()
		return result, closing(err, func() error { return <-beside })
	}
	result.spent(before, r.meter(), crew)
	if err := <-beside; err != nil {
		return result, err
	}
	begin, err := drainBegin(ctx, db, c, crew, tasks)
	if err != nil {
		return result, err
	}
	running = false
	if err := crew.stop(); err != nil {
		return result, err
	}
	result.tasks, result.seconds = float64(tasks), end.Sub(begin).Seconds()
	return result, nil
}

// meter is CPU time used so far; 0 where /proc doesn't tell.
type meter struct{ pg, bench, machine time.Duration }

func (r *Runner) meter() (m meter) {
	m.pg, _ = r.server.cpu()
	m.bench, _ = processCPU(os.Getpid())
	m.machine, _ = machineCPU()
	return m
}

// spent takes what was used between two readings.
func (d *drained) spent(before, after meter, crew *crew) {
	d.pg = after.pg - before.pg
	d.client, _ = processCPU(crew.client.pid()) // 0 where there is no /proc
	switch crew.counter {
	case nil:
		d.app, _ = reapedCPU(crew.client.pid())
	case crew.client:
	default:
		d.app, _ = processCPU(crew.counter.pid())
	}
	d.others = max(0, after.machine-before.machine-d.pg-d.client-d.app-(after.bench-before.bench))
}

// awaitDrained returns when the database holds the last outcome. It asks the
// database only once all tasks have started, so as not to disturb the rest; where
// nobody counts the starts, all the time but more rarely. Where
// others wait beside the backlog it asks for what runs, which an index finds: a
// task that is to run again by then makes a round that [drainBegin] refuses.
func awaitDrained(ctx context.Context, db *database, c contender, crew *crew, tasks int) (time.Time, error) {
	unfinished := cmp.Or(c.open, "state <> 'completed'")
	if c.counted != "" {
		unfinished = "state = 'running' and " + c.counted
	}
	var err error
	poll := execPoll
	if crew.counter != nil {
		poll, err = completedPoll, awaitStarts(ctx, crew.counter, tasks)
	}
	if err == nil {
		err = pollUntil(ctx, poll, func(ctx context.Context) (bool, error) {
			var left bool
			err := db.pool.QueryRow(ctx, "select exists (select from "+c.table+" where "+unfinished+")").Scan(&left)
			return !left, err
		})
	}
	if err == nil {
		return time.Now(), nil
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return time.Time{}, fmt.Errorf("%w; the tasks are %s; the %s said:\n%s", err, states(db, c), crew.client.name, crew.client.output.tail())
}

// states tells how many tasks are in which state, for an error's text.
func states(db *database, c contender) string {
	ctx, cancel := context.WithTimeout(context.Background(), queryTimeout)
	defer cancel()
	var text string
	err := db.pool.QueryRow(ctx, "select coalesce(string_agg(n || ' ' || state, ', '), 'none') from (select "+cmp.Or(c.state, "state")+
		" as state, count(*) as n from "+c.table+" group by 1 order by 1) as s").Scan(&text)
	if err != nil {
		return "unknown (" + err.Error() + ")"
	}
	return text
}

// drainBegin is when the first task was claimed, by this process's clock. It
// refuses a round that had more to do than each task once.
func drainBegin(ctx context.Context, db *database, c contender, crew *crew, tasks int) (time.Time, error) {
	read := c.ledger
	if read == nil {
		read = c.readLedger
	}
	l, err := read(ctx, db, crew)
	if err != nil {
		return l.first, fmt.Errorf("reading the first claim: %w", err)
	}
	if l.completed != tasks || l.again > 0 {
		return l.first, fmt.Errorf("%d tasks became %d, and %d of them were attempted more than once", tasks, l.completed, l.again)
	}
	offset, err := db.clockOffset(ctx)
	return l.first.Add(-offset), err
}

// readLedger reads a table of River's.
func (c contender) readLedger(ctx context.Context, db *database, _ *crew) (l ledger, err error) {
	query := "select count(*) filter (where state = 'completed'), count(*) filter (where attempt <> 1), coalesce(min(attempted_at), 'epoch') from " + c.table
	if c.counted != "" {
		query += " where " + c.counted
	}
	err = db.pool.QueryRow(ctx, query).Scan(&l.completed, &l.again, &l.first)
	return l, err
}
