package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sched-sidecar/sched/internal/config"
	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/sidecar/governor"
)

const (
	fleetPool   = 40               // connections that the sidecars of one process share, beside one each that listens
	fleetSettle = 10 * time.Second // for elections and late statistics
	fleetStop   = time.Minute

	fleetStatements = 10 // that took the most time
)

// fleet measures what many idle sidecars cost Postgres. They are the code of a
// sidecar without its app, in one process: a process each would measure this
// machine's memory.
func (r *Runner) fleet(ctx context.Context) (figures []Figure, err error) {
	set := r.config.Routing
	if r.server.postmaster == 0 {
		r.report.note("routing.fleet%d.pg_cpu_share is left out: %v", set.Fleet, errNoProc)
		return nil, nil
	}
	db, err := r.server.createDatabase(ctx, "fleet")
	if err != nil {
		return nil, err
	}
	defer func() { err = closing(err, db.drop) }()
	if err := migrateSched(ctx, db); err != nil {
		return nil, err
	}
	if err := fillSched(ctx, db, 1); err != nil {
		return nil, err
	}
	var oid uint32
	if err := r.server.track(ctx, db, &oid); err != nil {
		return nil, err
	}
	child, err := startChild(ctx, "fleet", r.worker(WorkerFleet, "-n", strconv.Itoa(set.Fleet)), []string{envDSN + "=" + db.dsn})
	if err != nil {
		return nil, err
	}
	defer func() { err = closing(err, child.stop) }()
	if err := db.awaitAssigned(ctx, set.Fleet); err != nil {
		return nil, err
	}
	if err := pause(ctx, min(fleetSettle, set.FleetDuration)); err != nil {
		return nil, err
	}
	var shares []float64
	for i := range r.config.Rounds {
		share, err := r.idleShare(ctx, set.FleetDuration)
		if err != nil {
			return nil, err
		}
		shares = append(shares, share)
		r.report.note("fleet round %d of %d: %.4f of a core in Postgres", i+1, r.config.Rounds, share)
	}
	if err := r.noteStatements(ctx, oid); err != nil {
		return nil, err
	}
	return []Figure{newFigure("routing.fleet200.pg_cpu_share", median(shares), "cores", AtMost(0.05), len(shares))}, nil
}

// noteStatements tells what took Postgres's time in a database since it was tracked,
// where statements are counted.
func (r *Runner) noteStatements(ctx context.Context, oid uint32) error {
	if !r.server.statements {
		return nil
	}
	statements, err := r.server.topStatements(ctx, oid)
	if err != nil {
		return err
	}
	for _, st := range statements[:min(len(statements), fleetStatements)] {
		const width = 100
		r.report.note("%.0f ms in %d calls: %.*s", st.Total, st.Calls, width, st.Query)
	}
	return nil
}

// idleShare is CPU time of Postgres by time.
func (r *Runner) idleShare(ctx context.Context, length time.Duration) (float64, error) {
	before, err := r.server.cpu()
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := pause(ctx, length); err != nil {
		return 0, err
	}
	after, err := r.server.cpu()
	return (after - before).Seconds() / time.Since(begin).Seconds(), err
}

// garrison is many idle sidecars in this process.
type garrison struct {
	pool      *pgxpool.Pool
	governors []*governor.Governor
}

// serveFleet runs n sidecars until ctx ends.
func serveFleet(ctx context.Context, dsn string, n int, serveUntil func() error) (err error) {
	poolConfig, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return fmt.Errorf("%s: %w", envDSN, err)
	}
	poolConfig.MaxConns = fleetPool
	poolConfig.ConnConfig.RuntimeParams["plan_cache_mode"] = "force_generic_plan" // as a sidecar sets it
	pool, err := pgxpool.NewWithConfig(ctx, poolConfig)
	if err != nil {
		return fmt.Errorf("%s: %w", envDSN, err)
	}
	defer pool.Close()
	g := &garrison{pool: pool}
	defer func() { err = errors.Join(err, g.stop(context.WithoutCancel(ctx))) }()
	for i := range n {
		if err := g.enlist(ctx, i); err != nil {
			return err
		}
	}
	return serveUntil()
}

func (g *garrison) enlist(ctx context.Context, n int) error {
	shipped := config.DefaultSidecar()
	one, err := governor.New(governor.Config{
		Pool: g.pool, Dispatcher: newGauge(shipped.Slots.Ceiling, 0), Logger: discardLogger(), Registerer: prometheus.NewRegistry(),
		ClientID: fmt.Sprintf("sched-bench-fleet-%d-%d", time.Now().UnixNano(), n), Protocols: []string{"http"},
		Slots: shipped.Slots.Ceiling, Ceiling: shipped.Slots.Ceiling,
		PollInterval: shipped.PollInterval, HeartbeatInterval: shipped.HeartbeatInterval,
		FenceAfter: shipped.FenceAfter, EvictAfter: shipped.EvictAfter, DefaultTimeout: shipped.DefaultTimeout,
		Retry: jobs.DefaultRetryPolicy(),
	})
	if err != nil {
		return fmt.Errorf("sidecar %d: %w", n, err)
	}
	if err := one.Start(ctx); err != nil {
		return fmt.Errorf("sidecar %d: %w", n, err)
	}
	g.governors = append(g.governors, one)
	return nil
}

// stop ends all of them side by side.
func (g *garrison) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, fleetStop)
	defer cancel()
	results := make(chan error, len(g.governors))
	for _, one := range g.governors {
		go func() { results <- one.Stop(ctx, fleetStop) }()
	}
	var errs []error
	for range g.governors {
		errs = append(errs, <-results)
	}
	return errors.Join(errs...)
}

// noRoutes is for worker processes that only have to be there.
func noRoutes(*http.ServeMux) {}
