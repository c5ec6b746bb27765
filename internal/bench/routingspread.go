package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// workedBy is what one worker did in the window.
type workedBy struct {
	Worker  string
	Ceiling float64
	Running float64 // mean number of its tasks between claim and settle
	Claimed float64
}

// spread measures how evenly work is spread while tasks are paced: by load under
// least_loaded, over sidecars of different sizes; by count under round_robin, over
// equal ones, with much and with little to do.
func (r *Runner) spread(ctx context.Context) ([]Figure, error) {
	set := r.config.Routing
	byLoad, err := r.spreadRound(ctx, "least_loaded", set.Slots, workShare, func(w workedBy) float64 { return w.Running / w.Ceiling })
	if err != nil {
		return nil, fmt.Errorf("least_loaded: %w", err)
	}
	equal := make([]int, len(set.Slots))
	for i := range equal {
		equal[i] = set.Slots[len(set.Slots)/2]
	}
	most := 0.0
	for _, share := range []float64{workShare, lightShare} {
		counts, err := r.spreadRound(ctx, "round_robin", equal, share, func(w workedBy) float64 { return w.Claimed })
		if err != nil {
			return nil, fmt.Errorf("round_robin: %w", err)
		}
		most = max(most, (counts.most-counts.least)/counts.mean)
	}
	return []Figure{
		newFigure("routing.least_loaded.spread", byLoad.most-byLoad.least, "ratio", AtMost(0.1), 1),
		newFigure("routing.round_robin.spread", most, "ratio", AtMost(0.05), 1),
	}, nil
}

// extent is the range of a measure over workers.
type extent struct{ least, most, mean float64 }

func extentOf(workers []workedBy, measure func(workedBy) float64) extent {
	result := extent{least: measure(workers[0])}
	for _, w := range workers {
		value := measure(w)
		result.least, result.most = min(result.least, value), max(result.most, value)
		result.mean += value / float64(len(workers))
	}
	return result
}

func (r *Runner) spreadRound(ctx context.Context, strategy string, slots []int, share float64, measure func(workedBy) float64) (result extent, err error) {
	set := r.config.Routing
	t, err := r.muster(ctx, slots, "update sched.queue set strategy = '"+strategy+"'", "-work", set.Work.String())
	if err != nil {
		return result, err
	}
	defer func() { err = closing(err, t.stop) }()
	capacity := 0.0
	for _, n := range slots {
		capacity += float64(n) / set.Work.Seconds()
	}
	began, err := t.db.clock(ctx)
	if err != nil {
		return result, err
	}
	tasks, took, err := t.db.paced(ctx, workKind, share*capacity, set.Settle+set.Duration)
	if err != nil {
		return result, err
	}
	// Half as long again is no pace any more, and says nothing about a share of the capacity.
	if took > (set.Settle+set.Duration)*3/2 {
		return result, fmt.Errorf("this machine can't enqueue %.0f tasks a second: %d took %s", share*capacity, tasks, took)
	}
	if err := t.db.awaitCompleted(ctx); err != nil {
		return result, err
	}
	from := began.Add(set.Settle)
	workers, err := t.db.workedBy(ctx, from, from.Add(set.Duration))
	if err != nil {
		return result, err
	}
	if len(workers) != len(slots) {
		return result, fmt.Errorf("%d workers had something to do, of %d: %v", len(workers), len(slots), workers)
	}
	result = extentOf(workers, measure)
	r.report.note("%s at %.0f %% of capacity, %d tasks: %s", strategy, 100*share, tasks, describe(workers))
	return result, nil
}

// workedBy tells what each worker did between two times.
func (d *database) workedBy(ctx context.Context, from, to time.Time) ([]workedBy, error) {
	rows, err := d.pool.Query(ctx, `
		select w.id as worker, w.ceiling::float8 as ceiling,
			sum(extract(epoch from least(j.finalized_at, $2) - greatest(j.attempted_at, $1)))::float8
				/ extract(epoch from $2::timestamptz - $1::timestamptz)::float8 as running,
			count(*) filter (where j.attempted_at >= $1 and j.attempted_at < $2)::float8 as claimed
		from `+schedTable+` as j
		join sched.worker as w on w.id = j.attempted_by[cardinality(j.attempted_by)]
		where j.kind = $3 and j.attempted_at < $2 and j.finalized_at > $1
		group by w.id, w.ceiling
		order by w.ceiling, w.id`, from, to, workKind)
	if err != nil {
		return nil, fmt.Errorf("reading what the workers did: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[workedBy])
}

func describe(workers []workedBy) string {
	text := ""
	for i, w := range workers {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%.0f slots %.3f (%.0f tasks)", w.Ceiling, w.Running/w.Ceiling, w.Claimed)
	}
	return text
}
