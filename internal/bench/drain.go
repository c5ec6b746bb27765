package bench

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// DrainConfig is how a backlog is drained.
type DrainConfig struct {
	Protocol string // between sidecar and app: http or grpc
	Tasks    int    // in the backlog
	Slots    int    // of the sidecar; River has 2000 workers
	Profile  string // directory for profiles of one round more; empty: none
}

// defaultDrain has as many slots as it takes for claims and settles of some size:
// with fewer, Postgres pays for statements instead of tasks; more than that only
// add connections (docs/performance.md).
func defaultDrain() DrainConfig { return DrainConfig{Protocol: "http", Tasks: 100000, Slots: 400} }

// The protocols that a drain is measured over.
const (
	protocolHTTP = "http"
	protocolGRPC = "grpc"
)

const (
	tasksMax      = 10_000_000
	slotsMax      = 5000
	drainTimeout  = time.Minute           // of a round, and for each task:
	drainPerTask  = 10 * time.Millisecond // a tenth of the rate that would be a scandal
	completedPoll = 5 * time.Millisecond
)

func (c DrainConfig) validate() error {
	if c.Protocol != protocolHTTP && c.Protocol != protocolGRPC {
		return fmt.Errorf("--protocol %q: use http or grpc", c.Protocol)
	}
	if c.Tasks < 1 || c.Tasks > tasksMax {
		return fmt.Errorf("--tasks %d is out of range 1..%d", c.Tasks, tasksMax)
	}
	if c.Slots < 1 || c.Slots > slotsMax {
		return fmt.Errorf("--slots %d is out of range 1..%d", c.Slots, slotsMax)
	}
	return nil
}

// crew is the processes that drain a backlog.
type crew struct {
	counter *child // where the handlers run
	client  *child // where tasks are claimed and settled
}

func (c *crew) stop() error {
	err := c.client.stop()
	if c.counter != c.client {
		err = closing(err, c.counter.stop)
	}
	return err
}

// contender is one side of a comparison.
type contender struct {
	name    string
	table   string
	counted string                                                   // which of its tasks are the backlog, as a condition; empty: all
	prepare func(ctx context.Context, db *database, tasks int) error // migrated and filled
	start   func(ctx context.Context, db *database, set sidecarOptions) (*crew, error)
}

func (r *Runner) river() contender {
	return contender{
		name: "river", table: riverTable,
		prepare: func(ctx context.Context, db *database, tasks int) error {
			if err := migrateRiver(ctx, db.pool); err != nil {
				return err
			}
			return fillRiver(ctx, db.dsn, tasks)
		},
		start: func(ctx context.Context, db *database, _ sidecarOptions) (*crew, error) {
			client, err := r.startRiverClient(ctx, db)
			return &crew{client, client}, err
		},
	}
}

func (r *Runner) sched() contender {
	return contender{
		name: "sched", table: schedTable,
		prepare: func(ctx context.Context, db *database, tasks int) error {
			if err := migrateSched(ctx, db); err != nil {
				return err
			}
			return fillSched(ctx, db, tasks)
		},
		start: r.schedCrew(r.config.Sidecar),
	}
}

// schedCrew starts an app and beside it a sidecar by its command.
func (r *Runner) schedCrew(sidecar []string) func(context.Context, *database, sidecarOptions) (*crew, error) {
	return func(ctx context.Context, db *database, set sidecarOptions) (*crew, error) {
		app, err := r.startDrainApp(ctx, &set)
		if err != nil {
			return nil, err
		}
		client, err := startSidecarOf(ctx, sidecar, db, app, set)
		if err != nil {
			return nil, closing(err, app.stop)
		}
		return &crew{app, client}, nil
	}
}

// startDrainApp runs the app for the protocol that is measured.
func (r *Runner) startDrainApp(ctx context.Context, set *sidecarOptions) (*child, error) {
	if r.config.Drain.Protocol == protocolHTTP {
		return r.startApp(ctx)
	}
	// A name of its own for each round; a socket's path must be short.
	set.listen = "unix://" + filepath.Join(os.TempDir(), "sched-bench-"+rand.Text()[:8]+".sock")
	return r.startSessionApp(ctx, set.listen, set.slots)
}

// drained is one round's measurement.
type drained struct {
	seconds float64
	tasks   float64
	pg      time.Duration // CPU of Postgres; 0: not measurable here
	client  time.Duration // CPU of the process that claims and settles
	app     time.Duration // CPU of the app, if it is another process
	others  time.Duration // CPU of what else ran on the machine meanwhile
}

func (d drained) rate() float64     { return d.tasks / d.seconds }
func (d drained) pgMicros() float64 { return micros(d.pg) / d.tasks }

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func (r *Runner) drain(ctx context.Context) error {
	set := r.config.Drain
	err := r.report.limits("drain", []limit{
		{"tasks", strconv.Itoa(set.Tasks)},
		{"sidecar slots", strconv.Itoa(set.Slots)},
		{"sidecar pool", strconv.Itoa(poolMax)},
		{"app", map[string]string{
			protocolHTTP: "another process, HTTP/1.1 keep-alive over TCP loopback, one request a task",
			protocolGRPC: "another process, a session over a Unix socket",
		}[set.Protocol]},
		{"River workers", strconv.Itoa(riverMaxWorkers)},
		{"River fetch cooldown", riverFetchCooldown.String()},
		{"River pool", strconv.Itoa(poolMax)},
	})
	if err != nil {
		return err
	}
	var theirs, ours []drained
	for i := range r.config.Rounds {
		river, err := r.drainRound(ctx, r.river(), nil)
		if err != nil {
			return fmt.Errorf("river: %w", err)
		}
		sched, err := r.drainRound(ctx, r.sched(), nil)
		if err != nil {
			return fmt.Errorf("sched: %w", err)
		}
		theirs, ours = append(theirs, river), append(ours, sched)
		r.report.note("drain round %d of %d: river %s; sched %s; ratio %.3f", i+1, r.config.Rounds, river, sched, sched.rate()/river.rate())
	}
	if set.Profile != "" {
		if err := r.profile(ctx, set.Profile); err != nil {
			return err
		}
	}
	return r.report.add(drainFigures("drain."+set.Protocol, ours, theirs)...)
}

// String shows a round in a line.
func (d drained) String() string {
	return fmt.Sprintf("%.0f/s (CPU a task: Postgres %.1f us, client %.1f us, app %.1f us; others took %.2f cores)",
		d.rate(), d.pgMicros(), micros(d.client)/d.tasks, micros(d.app)/d.tasks, d.others.Seconds()/d.seconds)
}

// ratios compares the sides round by round: what slows a machine down for a while
// then slows both, where the ratio of two medians could take one side's good
// round and the other's bad one.
func ratios(ours, theirs []drained) []float64 {
	result := make([]float64, len(ours))
	for i := range ours {
		result[i] = ours[i].rate() / theirs[i].rate()
	}
	return result
}

func drainFigures(name string, ours, theirs []drained) []Figure {
	rounds := len(ours)
	report := func(name string, of []drained, unit string, measure func(drained) float64) Figure {
		return newFigure(name, medianOf(of, measure), unit, Bound{}, rounds)
	}
	client := func(d drained) float64 { return micros(d.client) / d.tasks }
	figures := []Figure{
		newFigure(name+".vs_river", median(ratios(ours, theirs)), "ratio", Bound{}, rounds),
		report(name+".tasks_per_s", ours, "1/s", drained.rate),
		report("drain.river.tasks_per_s", theirs, "1/s", drained.rate),
	}
	// Without /proc there is no CPU time, which is no figure rather than a zero.
	if ours[0].pg > 0 && theirs[0].pg > 0 {
		figures = append(figures,
			report(name+".pg_us_per_task", ours, "us", drained.pgMicros),
			report("drain.river.pg_us_per_task", theirs, "us", drained.pgMicros))
	}
	if ours[0].client > 0 && theirs[0].client > 0 {
		figures = append(figures,
			report(name+".sidecar_us_per_task", ours, "us", client),
			report("drain.river.client_us_per_task", theirs, "us", client),
			report(name+".app_us_per_task", ours, "us", func(d drained) float64 { return micros(d.app) / d.tasks }))
	}
	return figures
}
