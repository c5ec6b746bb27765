package bench

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// BacklogConfig is what a sidecar works beside.
type BacklogConfig struct {
	Parts    []string      // which of [BacklogParts] to measure
	Rows     int           // in the table beside the tasks that are drained
	Rate     int           // tasks a second while a transaction stays open
	Baseline time.Duration // how long they come before it is opened
	Pinned   time.Duration // how long it stays open
}

// BacklogParts are what the backlog scenario is made of.
func BacklogParts() []string {
	return []string{partWaiting, partFinished, partUnanalysed, partPinned}
}

const (
	partWaiting    = "waiting"
	partFinished   = "finished"
	partUnanalysed = "unanalysed"
	partPinned     = "pinned"

	besideBound     = 0.9
	unanalysedBound = 0.8
	pinnedBound     = 5
	waitingKind     = "bench.waiting"
)

func defaultBacklog() BacklogConfig {
	return BacklogConfig{Parts: BacklogParts(), Rows: 1_000_000, Rate: 500, Baseline: time.Minute, Pinned: 10 * time.Minute}
}

func (c BacklogConfig) validate() error {
	for _, part := range c.Parts {
		if !slices.Contains(BacklogParts(), part) {
			return fmt.Errorf("--parts %s: the parts are %s", part, strings.Join(BacklogParts(), ", "))
		}
	}
	if c.Rows < 2 || c.Rows > tasksMax {
		return fmt.Errorf("--rows %d is out of range 2..%d", c.Rows, tasksMax)
	}
	if c.Rate < 1 || c.Rate > rateMax {
		return fmt.Errorf("--rate %d is out of range 1..%d", c.Rate, rateMax)
	}
	for _, d := range []time.Duration{c.Baseline, c.Pinned} {
		if d < time.Second || d > durationMax {
			return fmt.Errorf("--baseline %s or --pinned %s is out of range 1s..%s", c.Baseline, c.Pinned, durationMax)
		}
	}
	return nil
}

func (r *Runner) backlog(ctx context.Context) error {
	set := r.config.Backlog
	err := r.report.limits("backlog", []limit{
		{"parts", strings.Join(set.Parts, "+")},
		{"drains", strconv.Itoa(r.config.Drain.Tasks) + " tasks, " + strconv.Itoa(r.config.Drain.Slots) + " slots, over " + r.config.Drain.Protocols[0]},
		{"rows beside them", strconv.Itoa(set.Rows)},
		{"pinned", fmt.Sprintf("%d tasks a second for %s, then with a transaction open for %s; one round", set.Rate, set.Baseline, set.Pinned)},
	})
	if err != nil {
		return err
	}
	for _, part := range BacklogParts() {
		if !slices.Contains(set.Parts, part) {
			continue
		}
		figure, err := r.backlogPart(ctx, part)
		if err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
		if err := r.report.add(figure); err != nil {
			return err
		}
	}
	return nil
}

func (r *Runner) backlogPart(ctx context.Context, part string) (Figure, error) {
	rows := r.config.Backlog.Rows
	switch part {
	case partWaiting:
		return r.beside(ctx, "backlog.waiting_1m.vs_empty", besideBound, r.sched(), r.schedBeside("sched_waiting", rows, 0))
	case partFinished:
		return r.beside(ctx, "backlog.finished_1m.vs_empty", besideBound, r.sched(), r.schedBeside("sched_finished", 0, rows))
	case partUnanalysed:
		analysed := withoutAutovacuum(r.schedBeside("sched_analysed", rows-rows/2, rows/2))
		never := withoutAutovacuum(r.schedBeside("sched_unanalysed", rows-rows/2, rows/2))
		never.stale = true
		return r.beside(ctx, "backlog.unanalysed.vs_analysed", unanalysedBound, analysed, never)
	case partPinned:
		return r.pinned(ctx)
	}
	return Figure{}, fmt.Errorf("no such part")
}

// beside is the ratio of two contenders' rates.
func (r *Runner) beside(ctx context.Context, name string, bound float64, without, with contender) (Figure, error) {
	result, err := r.compared(ctx, without, with)
	if err != nil {
		return Figure{}, err
	}
	return newFigure(name, result[1], "ratio", AtLeast(bound), r.config.Rounds), nil
}

// schedBeside is sched with other rows in its table, which were there first: tasks
// that wait in a queue that no sidecar here may serve, and completed ones.
func (r *Runner) schedBeside(name string, waiting, finished int) contender {
	c := r.sched()
	c.name = name
	c.counted = "kind = '" + noopKind + "'"
	c.prepare = func(ctx context.Context, db *database, tasks int) error {
		if err := migrateSched(ctx, db); err != nil {
			return err
		}
		if err := db.fillBeside(ctx, waiting, finished); err != nil {
			return fmt.Errorf("filling the table: %w", err)
		}
		return fillSched(ctx, db, tasks)
	}
	return c
}

// fillBeside adds rows the quick way: as many copies of what one enqueue, and one
// completed task, leave in the table.
func (d *database) fillBeside(ctx context.Context, waiting, finished int) error {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	for _, statement := range []struct {
		sql  string
		rows int
	}{
		{`with first as (
				select j.* from sched.river_job as j
				where j.id = (select sched.enqueue($1, queue => 'elsewhere', selector => '{"zone": "elsewhere"}')))
			insert into sched.river_job (kind, args, queue, metadata)
			select $1, jsonb_build_object('n', n), first.queue, first.metadata from first, generate_series(2, $2::int) as n`, waiting},
		{`insert into sched.river_job (kind, args, queue, state, attempt, attempted_at, attempted_by, finalized_at)
			select $1, jsonb_build_object('n', n), 'default', 'completed', 1, now(), '{bench}', now() from generate_series(1, $2::int) as n`, finished},
	} {
		if statement.rows == 0 {
			continue
		}
		if _, err := d.pool.Exec(ctx, statement.sql, waitingKind, statement.rows); err != nil {
			return err
		}
	}
	return nil
}

// withoutAutovacuum has nobody vacuum or analyse a contender's table behind its
// back.
func withoutAutovacuum(c contender) contender {
	prepare := c.prepare
	c.prepare = func(ctx context.Context, db *database, tasks int) error {
		if err := migrateSched(ctx, db); err != nil {
			return err
		}
		if _, err := db.pool.Exec(ctx, "alter table "+schedTable+" set (autovacuum_enabled = off)"); err != nil {
			return err
		}
		return prepare(ctx, db, tasks)
	}
	return c
}
