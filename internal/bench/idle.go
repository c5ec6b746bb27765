package bench

import (
	"context"
	"fmt"
	"time"
)

// IdleConfig is how long a sidecar without work is watched.
type IdleConfig struct {
	Settle   time.Duration // for a start's own work: elections, queues, late statistics
	Duration time.Duration // of a round, after that
}

const (
	idleMemoryBound  = 40 // MB
	idleQueriesBound = 5
	idleCPUBound     = 0.005 // cores
)

func defaultIdle() IdleConfig { return IdleConfig{Settle: 8 * time.Second, Duration: 20 * time.Second} }

func (c IdleConfig) validate() error {
	if c.Duration < time.Second || c.Duration > durationMax {
		return fmt.Errorf("--duration %s is out of range 1s..%s", c.Duration, durationMax)
	}
	return nil
}

// idling is one round's measurement.
type idling struct {
	rssMB, queriesPerSecond, cpuShare float64
}

func (r *Runner) idle(ctx context.Context) error {
	counted := "pg_stat_statements (calls)"
	if !r.server.statements {
		counted = "pg_stat_database (transactions)"
	}
	err := r.report.limits("idle", []limit{
		{"duration", r.config.Idle.Duration.String() + " a round, after " + r.config.Idle.Settle.String()},
		{"sidecar", "as shipped, beside an idle app"},
		{"queries counted by", counted},
	})
	if err != nil {
		return err
	}
	var rounds []idling
	for i := range r.config.Rounds {
		round, err := r.idleRound(ctx)
		if err != nil {
			return err
		}
		rounds = append(rounds, round)
		r.report.note("idle round %d of %d: %.1f MB, %.2f queries/s, %.4f of a core", i+1, r.config.Rounds, round.rssMB, round.queriesPerSecond, round.cpuShare)
	}
	return r.report.add(
		newFigure("idle.rss_mb", medianOf(rounds, func(i idling) float64 { return i.rssMB }), "MB", AtMost(idleMemoryBound), len(rounds)),
		newFigure("idle.queries_per_s", medianOf(rounds, func(i idling) float64 { return i.queriesPerSecond }), "1/s", AtMost(idleQueriesBound), len(rounds)),
		newFigure("idle.cpu_share", medianOf(rounds, func(i idling) float64 { return i.cpuShare }), "cores", AtMost(idleCPUBound), len(rounds)))
}

func (r *Runner) idleRound(ctx context.Context) (result idling, err error) {
	db, err := r.server.createDatabase(ctx, "idle")
	if err != nil {
		return result, err
	}
	defer func() { err = closing(err, db.drop) }()
	if err := migrateSched(ctx, db); err != nil {
		return result, err
	}
	// A sidecar with nothing to serve would be idler than any in production.
	if err := fillSched(ctx, db, 1); err != nil {
		return result, err
	}
	var oid uint32
	if err := r.server.track(ctx, db, &oid); err != nil {
		return result, err
	}
	db.pool.Reset() // our own connections leave, with what they would add
	app, err := r.startApp(ctx)
	if err != nil {
		return result, err
	}
	defer func() { err = closing(err, app.stop) }()
	sidecar, err := r.startSidecar(ctx, db, app, sidecarOptions{})
	if err != nil {
		return result, err
	}
	defer func() { err = closing(err, sidecar.stop) }()
	startCtx, cancel := context.WithTimeout(ctx, childStart)
	defer cancel()
	if err := awaitStarts(startCtx, app, 1); err != nil {
		return result, err
	}
	if err := pause(ctx, r.config.Idle.Settle); err != nil {
		return result, err
	}
	return r.watchIdle(ctx, sidecar, oid)
}

func (r *Runner) watchIdle(ctx context.Context, sidecar *child, oid uint32) (result idling, err error) {
	cpuBefore, err := processCPU(sidecar.pid())
	if err != nil {
		return result, err
	}
	queriesBefore, err := r.server.queries(ctx, oid)
	if err != nil {
		return result, err
	}
	begin := time.Now()
	if err := pause(ctx, r.config.Idle.Duration); err != nil {
		return result, err
	}
	cpuAfter, err := processCPU(sidecar.pid())
	if err != nil {
		return result, err
	}
	queriesAfter, err := r.server.queries(ctx, oid)
	if err != nil {
		return result, err
	}
	seconds := time.Since(begin).Seconds()
	resident, err := residentBytes(sidecar.pid())
	if err != nil {
		return result, err
	}
	return idling{
		rssMB:            float64(resident) / (1 << 20),
		queriesPerSecond: float64(queriesAfter-queriesBefore) / seconds,
		cpuShare:         (cpuAfter - cpuBefore).Seconds() / seconds,
	}, nil
}

// queries counts what was done in a database so far: statements, or transactions
// where statements aren't counted. It asks from another database and so doesn't
// count itself.
func (s *server) queries(ctx context.Context, oid uint32) (n int64, err error) {
	query := "select coalesce(sum(calls), 0)::bigint from pg_stat_statements where dbid = $1"
	if !s.statements {
		query = "select xact_commit + xact_rollback from pg_stat_database where datid = $1"
	}
	if err := s.admin.QueryRow(ctx, query, oid).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting queries: %w", err)
	}
	return n, nil
}

// pause waits for d, or fails when ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
