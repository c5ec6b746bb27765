package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sched-sidecar/sched/elastic"
	"github.com/sched-sidecar/sched/routing"
	"github.com/sched-sidecar/sched/sidecar/governor"
	"github.com/sched-sidecar/sched/sidecar/load"
	"github.com/sched-sidecar/sched/sidecar/sizer"
	"github.com/sched-sidecar/sched/sql/dbq"
)

// randomResizes moves the limit of a governor under load to random numbers, one
// after the other, and measures how soon each is met.
func (r *Runner) randomResizes(ctx context.Context) ([]Figure, error) {
	set := r.config.Elastic
	random := rand.New(rand.NewPCG(1, 2)) // the same for everybody who measures
	steps := make([]int, set.Resizes)
	for i := range steps {
		steps[i] = 1 + random.IntN(set.Ceiling)
	}
	steps[0] = set.Ceiling
	// A shrink waits for tasks to end, a growth for hardly anything.
	perStep := float64(set.Ceiling) / 2
	config := GovernorConfig{Steps: steps, Work: set.IOWork, Tasks: backlogFor(perStep, time.Duration(set.Resizes)*2*time.Second)}
	result, err := r.resizeRoundOf(ctx, config)
	if err != nil {
		return nil, err
	}
	const most = 0.99
	r.report.note("%d resizes: growing took %.1f ms (median), %.1f ms (99 of 100); shrinking %.1f ms (median)",
		set.Resizes, median(result.growMillis), percentile(result.growMillis, most), median(result.shrinkMills))
	return []Figure{
		newFigure("elastic.resize.latency_ms", percentile(result.growMillis, most), "ms", AtMost(50), 1),
		newFigure("elastic.resize.over_limit", float64(result.over), "tasks", AtMost(0), 1),
		newFigure("elastic.resize.interrupted", float64(result.interrupted), "tasks", AtMost(0), 1),
	}, nil
}

// puppet is a governor whose numbers change so much each second that there is always
// something to decide and to write.
type puppet struct {
	ceiling int
	slots   int
	second  int
	noted   int
}

func (p *puppet) Tally() governor.Tally {
	const perSlot = 20
	p.second++
	ended := min(p.slots, 4+p.second%(p.ceiling-3)) * perSlot
	return governor.Tally{
		Since: time.Second, Claimed: ended, Ended: ended, Held: time.Duration(ended) * time.Second / perSlot,
		Running: float64(ended) / perSlot, Peak: p.slots,
	}
}

func (p *puppet) Status() governor.Status {
	return governor.Status{WorkerID: puppetID, Slots: p.slots, Ceiling: p.ceiling, Queues: []string{schedQueue}}
}

func (p *puppet) SetSlots(n int) error {
	p.slots = n
	return nil
}

func (p *puppet) Note(routing.Decision) { p.noted++ }

const puppetID = "bench"

// controllerCost measures what a second of the controller costs: sampling this
// process, reading what waits, deciding, and writing what was found; on this side and
// in Postgres.
func (r *Runner) controllerCost(ctx context.Context) (figures []Figure, err error) {
	if r.server.postmaster == 0 {
		r.report.note("elastic.controller.cpu_share is left out: %v", errNoProc)
		return nil, nil
	}
	set := r.config.Elastic
	db, err := r.server.createDatabase(ctx, "controller")
	if err != nil {
		return nil, err
	}
	defer func() { err = closing(err, db.drop) }()
	if err := migrateSched(ctx, db); err != nil {
		return nil, err
	}
	for _, sql := range []string{
		"insert into sched.worker (id, client_id, state) values ('" + puppetID + "', '" + puppetID + "', 'active')",
		"insert into sched.queue (name, base, pending, weight_total) values ('" + schedQueue + "', '" + schedQueue + "', 100, 10)",
		"insert into sched.assignment (queue, worker_id, weight, reason, version) values ('" + schedQueue + "', '" + puppetID + "', 10, 'bench', 1)",
		"update sched.fleet set workers = 1, computed_at = clock_timestamp() + interval '1 hour'",
	} {
		if _, err := db.pool.Exec(ctx, sql); err != nil {
			return nil, fmt.Errorf("%s: %w", sql, err)
		}
	}
	cost, err := r.beats(ctx, db, set.Beats)
	if err != nil {
		return nil, err
	}
	return []Figure{newFigure("elastic.controller.cpu_share", cost, "cores", AtMost(0.01), 1)}, nil
}

// beats decides as often as told, a virtual second apart, and returns the CPU time of
// one in seconds.
func (r *Runner) beats(ctx context.Context, db *database, n int) (float64, error) {
	config, err := pgxpool.ParseConfig(db.dsn)
	if err != nil {
		return 0, err
	}
	config.ConnConfig.RuntimeParams["plan_cache_mode"] = "force_generic_plan" // as a sidecar sets it
	config.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	now := time.Now()
	clock := func() time.Time { return now }
	sampler := load.NewSampler(load.Config{PID: os.Getpid, Now: clock})
	governor := &puppet{ceiling: r.config.Elastic.Ceiling, slots: 2}
	s := sizer.New(sizer.Config{
		Governor: governor, Store: dbq.New(pool), Logger: discardLogger(), Registerer: prometheus.NewRegistry(), Now: clock,
		Load: func() (load.Usage, bool) {
			app, known := sampler.Usage().App()
			app.CPU = min(app.CPU, elastic.Headroom/2)
			return app, known
		},
	})
	beat := func() {
		now = now.Add(time.Second)
		_ = sampler.Sample() // the first one has nothing to compare with
		s.Step(ctx)
	}
	const warm = 10
	for range warm {
		beat()
	}
	own, theirs, err := r.cpuTimes()
	if err != nil {
		return 0, err
	}
	for range n {
		beat()
	}
	own2, theirs2, err := r.cpuTimes()
	if err != nil {
		return 0, err
	}
	if governor.noted < n/10 {
		return 0, fmt.Errorf("only %d of %d decisions moved anything: the cost of nothing says nothing", governor.noted, n)
	}
	r.report.note("a decision costs %.0f us here and %.0f us in Postgres; %d of %d moved the slots",
		micros(own2-own)/float64(n), micros(theirs2-theirs)/float64(n), governor.noted, n+warm)
	return (own2 - own + theirs2 - theirs).Seconds() / float64(n), nil
}

// cpuTimes is the CPU time of this process and of Postgres so far.
func (r *Runner) cpuTimes() (own, theirs time.Duration, err error) {
	if own, err = processCPU(os.Getpid()); err != nil {
		return 0, 0, err
	}
	theirs, err = r.server.cpu()
	return own, theirs, err
}
