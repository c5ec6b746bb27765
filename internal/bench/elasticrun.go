package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// appSpec is the app beside a sidecar.
type appSpec struct {
	work  time.Duration
	width int // tasks at once; 0: any number
	spin  int // rounds that a task computes
	cores int // that it may use; 0: all
}

// slotSpec is how many slots a sidecar has.
type slotSpec struct {
	fixed   int // 0: it sizes itself
	ceiling int // if it does
	initial int // 0: as shipped
}

// pair is a troop of one: an app and a sidecar beside it, which sees what the app's
// process uses.
type pair struct {
	*troop

	worker string
	start  int // slots before the first decision
	dir    string
}

// pairUp starts both. settings are SQL that runs before, if any.
func (r *Runner) pairUp(ctx context.Context, app appSpec, slots slotSpec, settings string) (p *pair, err error) {
	p = &pair{troop: &troop{r: r}, start: slots.fixed}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.stop())
		}
	}()
	if p.dir, err = os.MkdirTemp("", "sched-bench-elastic"); err != nil {
		return p, err
	}
	if p.db, err = r.server.createDatabase(ctx, "elastic"); err != nil {
		return p, err
	}
	if err := migrateSched(ctx, p.db); err != nil {
		return p, err
	}
	if err := fillSched(ctx, p.db, 1); err != nil { // so that there is a queue to be assigned to
		return p, err
	}
	if settings != "" {
		if _, err := p.db.pool.Exec(ctx, settings); err != nil {
			return p, fmt.Errorf("%s: %w", settings, err)
		}
	}
	var env []string
	if app.cores > 0 {
		env = append(env, "GOMAXPROCS="+strconv.Itoa(app.cores))
	}
	p.app, err = r.startAppIn(ctx, env, "-work", app.work.String(), "-width", strconv.Itoa(app.width), "-spin", strconv.Itoa(app.spin))
	if err != nil {
		return p, err
	}
	set, err := p.options(slots)
	if err != nil {
		return p, err
	}
	sidecar, err := r.startSidecar(ctx, p.db, p.app, set)
	if err != nil {
		return p, err
	}
	p.sidecars = []*child{sidecar}
	if err := p.db.awaitAssigned(ctx, 1); err != nil {
		return p, err
	}
	err = p.db.pool.QueryRow(ctx, "select id, slots from sched.worker where pid = $1", sidecar.pid()).Scan(&p.worker, &p.start)
	return p, err
}

func (p *pair) options(slots slotSpec) (sidecarOptions, error) {
	pidFile := filepath.Join(p.dir, "app.pid")
	if err := os.WriteFile(pidFile, []byte(strconv.Itoa(p.app.pid())), 0o600); err != nil {
		return sidecarOptions{}, err
	}
	set := sidecarOptions{slots: slots.fixed, env: []string{"SCHED_APP_PID_FILE=" + pidFile}}
	if slots.fixed == 0 {
		set.slots = slots.ceiling
		set.env = append(set.env, "SCHED_ELASTIC=on", "SCHED_SLOTS_INITIAL="+strconv.Itoa(slots.initial))
	}
	return set, nil
}

func (p *pair) stop() error {
	err := p.troop.stop()
	if p.dir != "" {
		err = errors.Join(err, os.RemoveAll(p.dir))
	}
	return err
}

// flood enqueues tasks at once, all in one transaction.
func (p *pair) flood(ctx context.Context, tasks int) error {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	return pgx.BeginFunc(ctx, p.db.pool, func(tx pgx.Tx) error {
		for done := 0; done < tasks; done += fillBatch {
			_, err := tx.Exec(ctx, `select count(*) from sched.enqueue_many((
				select jsonb_agg(jsonb_build_object('kind', $1::text)) from generate_series(1, $2::int)))`, workKind, min(fillBatch, tasks-done))
			if err != nil {
				return fmt.Errorf("enqueueing %d tasks: %w", tasks, err)
			}
		}
		return nil
	})
}

// move is a decision about slots.
type move struct {
	At     time.Time
	Slots  int
	Reason string
}

// decisionsWritten is how long it may take until a decision is in the database.
const decisionsWritten = 2500 * time.Millisecond

// moves returns all decisions about slots, once they are written.
func (p *pair) moves(ctx context.Context) ([]move, error) {
	if err := pause(ctx, decisionsWritten); err != nil {
		return nil, err
	}
	rows, err := p.db.pool.Query(ctx, `select at, to_value::int as slots, reason from sched.decision
		where what = 'slots' and subject = $1 and from_value <> to_value order by at, id`, p.worker)
	if err != nil {
		return nil, fmt.Errorf("reading decisions: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[move])
}

// course is how many slots there were over time.
type course struct {
	start int
	moves []move
}

// at is how many there were at a time.
func (c course) at(when time.Time) int {
	slots := c.start
	for _, m := range c.moves {
		if m.At.After(when) {
			break
		}
		slots = m.Slots
	}
	return slots
}

// span is the slot-seconds, and the fewest and most slots, of a time.
func (c course) span(from, to time.Time) (seconds float64, least, most int) {
	slots, at := c.at(from), from
	least, most = slots, slots
	for _, m := range c.moves {
		if !m.At.After(from) || m.At.After(to) {
			continue
		}
		seconds += float64(slots) * m.At.Sub(at).Seconds()
		slots, at = m.Slots, m.At
		least, most = min(least, slots), max(most, slots)
	}
	return seconds + float64(slots)*to.Sub(at).Seconds(), least, most
}

// mean is the mean number of slots of a time.
func (c course) mean(from, to time.Time) float64 {
	seconds, _, _ := c.span(from, to)
	return seconds / to.Sub(from).Seconds()
}

// swing is how far slots went up and down around the middle, as a share of it.
func (c course) swing(from, to time.Time) float64 {
	_, least, most := c.span(from, to)
	return float64(most-least) / max(float64(most+least), 1)
}

// tell shows the decisions since a time.
func (c course) tell(since time.Time) string {
	const most = 40
	var text strings.Builder
	fmt.Fprint(&text, c.start)
	for i, m := range c.moves {
		if i == most {
			fmt.Fprintf(&text, " and %d more", len(c.moves)-most)
			break
		}
		reason, _, _ := strings.Cut(m.Reason, ":")
		fmt.Fprintf(&text, " %+.1fs:%d(%s)", m.At.Sub(since).Seconds(), m.Slots, reason)
	}
	return text.String()
}

// done is a task that was worked, in seconds from the begin of a run.
type done struct {
	Due, Ended float64
	WaitMillis float64 // from when it was due to its claim
	Attempt    int
}

// worked returns the tasks that were completed, by when they were due.
func (p *pair) worked(ctx context.Context, began time.Time) ([]done, error) {
	rows, err := p.db.pool.Query(ctx, `
		select extract(epoch from scheduled_at - $1)::float8 as due, extract(epoch from finalized_at - $1)::float8 as ended,
			1000 * extract(epoch from attempted_at - scheduled_at)::float8 as wait_millis, attempt::int as attempt
		from `+schedTable+` where kind = $2 and state = 'completed' order by scheduled_at, id`, began, workKind)
	if err != nil {
		return nil, fmt.Errorf("reading what was worked: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[done])
}

// saturated is a run in which there is always more to do.
type saturated struct {
	rate  float64 // tasks a second that ended
	mean  float64 // slots in the second half
	swing float64 // of them
}

// saturate runs an app with more tasks than it can end in the time, which are
// enqueued at once.
func (r *Runner) saturate(ctx context.Context, app appSpec, slots slotSpec, tasks int, length time.Duration) (result saturated, err error) {
	p, err := r.pairUp(ctx, app, slots, "")
	if err != nil {
		return result, err
	}
	defer func() { err = closing(err, p.stop) }()
	if err := p.flood(ctx, tasks); err != nil {
		return result, err
	}
	began, err := p.db.clock(ctx)
	if err != nil {
		return result, err
	}
	if err := pause(ctx, length); err != nil {
		return result, err
	}
	until := began.Add(length)
	if err := stillBusy(ctx, p.db); err != nil {
		return result, err
	}
	var ended float64
	err = p.db.pool.QueryRow(ctx, "select count(*)::float8 from "+schedTable+" where kind = $1 and state = 'completed' and finalized_at between $2 and $3",
		workKind, began, until).Scan(&ended)
	if err != nil {
		return result, fmt.Errorf("counting what ended: %w", err)
	}
	result.rate, result.mean = ended/length.Seconds(), float64(slots.fixed)
	if slots.fixed > 0 {
		return result, nil
	}
	moves, err := p.moves(ctx)
	if err != nil {
		return result, err
	}
	c, half := course{p.start, moves}, began.Add(length/2)
	result.mean, result.swing = c.mean(half, until), c.swing(half, until)
	r.report.note("%.1f tasks/s, %.1f slots in the second half, +- %.0f %%; %s", result.rate, result.mean, 100*result.swing, c.tell(began))
	return result, nil
}

// best runs fixed settings and returns the highest rate among them.
func (r *Runner) best(ctx context.Context, app appSpec, settings []int, tasksPerSecond float64) (float64, error) {
	length, best := r.config.Elastic.sweep(), math.Inf(-1)
	for _, fixed := range settings {
		result, err := r.saturate(ctx, app, slotSpec{fixed: fixed}, backlogFor(tasksPerSecond, length), length)
		if err != nil {
			return 0, fmt.Errorf("%d slots: %w", fixed, err)
		}
		r.report.note("%d slots: %.1f tasks/s", fixed, result.rate)
		best = max(best, result.rate)
	}
	return best, nil
}

// backlogFor is more tasks than end at a rate in a time.
func backlogFor(tasksPerSecond float64, length time.Duration) int {
	const spare, more = 1.5, 500
	return int(spare*tasksPerSecond*length.Seconds()) + more
}
