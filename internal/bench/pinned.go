package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sched-sidecar/sched/internal/config"
	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/sidecar/dispatch"
)

// pinnedTail is the part of the time with an open transaction whose claims count:
// its end, when most dead rows lie about.
const pinnedTail = 5

// claimTimer is a tracer that takes the time of each claim statement.
type claimTimer struct {
	mu   sync.Mutex
	took []float64 // milliseconds
}

var _ pgx.QueryTracer = (*claimTimer)(nil)

type claimBegun struct{}

// TraceQueryStart notes when a claim is sent.
func (t *claimTimer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.HasPrefix(data.SQL, "-- name: TaskClaim") {
		return context.WithValue(ctx, claimBegun{}, time.Now())
	}
	return ctx
}

// TraceQueryEnd notes when its last row is there.
func (t *claimTimer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if begun, ok := ctx.Value(claimBegun{}).(time.Time); ok {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.took = append(t.took, millis(time.Since(begun)))
	}
}

// p99 is that of the claims since the last call, and how many there were.
func (t *claimTimer) p99() (float64, int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	took := t.took
	t.took = nil
	const most = 0.99
	return percentile(took, most), len(took)
}

// instant is an app in this process that does nothing.
type instant struct{}

var _ dispatch.Dispatcher = instant{}

// Dispatch completes the task.
func (instant) Dispatch(context.Context, *dispatch.Task) jobs.Outcome {
	return jobs.Outcome{Kind: jobs.OutcomeComplete}
}

// pinned compares the claims of a steady stream of tasks while a transaction stays
// open, so that no dead row may go, with those before it. A governor in this
// process claims, so that its statements can be timed.
func (r *Runner) pinned(ctx context.Context) (figure Figure, err error) {
	db, err := r.server.createDatabase(ctx, "pinned")
	if err != nil {
		return figure, err
	}
	defer func() { err = closing(err, db.drop) }()
	if err := migrateSched(ctx, db); err != nil {
		return figure, err
	}
	timer := &claimTimer{}
	poolConfig, err := pgxpool.ParseConfig(db.dsn)
	if err != nil {
		return figure, err
	}
	poolConfig.MaxConns, poolConfig.ConnConfig.Tracer = poolMax, timer
	pool, err := pgxpool.NewWithConfig(ctx, poolConfig)
	if err != nil {
		return figure, err
	}
	defer pool.Close()
	slots := config.DefaultSidecar().Slots.Ceiling
	g, err := newGovernor(pool, instant{}, slots, slots)
	if err != nil {
		return figure, err
	}
	if err := g.Start(ctx); err != nil {
		return figure, err
	}
	defer func() {
		err = closing(err, func() error {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepTimeout)
			defer cancel()
			return g.Stop(ctx, time.Second)
		})
	}()
	ratio, err := r.pin(ctx, db, timer)
	if err != nil {
		return figure, err
	}
	return newFigure("backlog.pinned_xmin.claim_p99_vs_baseline", ratio, "ratio", AtMost(pinnedBound), 1), nil
}

// pin has tasks come before and while a transaction is open and returns the ratio.
func (r *Runner) pin(ctx context.Context, db *database, timer *claimTimer) (float64, error) {
	set := r.config.Backlog
	stream := func(length time.Duration) (float64, error) {
		if _, _, err := db.paced(ctx, noopKind, float64(set.Rate), length); err != nil {
			return 0, err
		}
		p99, n := timer.p99()
		if n == 0 {
			return 0, errors.New("nothing was claimed")
		}
		r.report.note("pinned: %d claims in %s, p99 %.2f ms", n, length, p99)
		return p99, nil
	}
	if _, err := stream(time.Second); err != nil { // finds everything cold
		return 0, err
	}
	before, err := stream(set.Baseline)
	if err != nil {
		return 0, err
	}
	conn, err := pgx.Connect(ctx, db.dsn)
	if err != nil {
		return 0, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "begin isolation level repeatable read; select txid_current()"); err != nil {
		return 0, fmt.Errorf("opening a transaction: %w", err)
	}
	tail := set.Pinned / pinnedTail
	if _, err := stream(set.Pinned - tail); err != nil {
		return 0, err
	}
	during, err := stream(tail)
	if err != nil {
		return 0, err
	}
	if _, err := conn.Exec(ctx, "rollback"); err != nil {
		return 0, fmt.Errorf("the open transaction: %w", err)
	}
	return during / before, db.awaitCompleted(ctx)
}
