package interop_test

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/require"

	sidecar "github.com/sched-sidecar/sched/internal/app"
	"github.com/sched-sidecar/sched/internal/config"
	"github.com/sched-sidecar/sched/internal/pgtest"
)

const (
	// patience bounds every wait of these tests.
	patience = time.Minute
	tick     = 10 * time.Millisecond
)

// bundle is what most tests need: a database, an insert-only client of River on
// it, and a sidecar at work for an app.
type bundle struct {
	pool  *pgxpool.Pool
	river *river.Client[pgx.Tx]
	app   *app
}

// setup makes a bundle. The queue default exists: see TestNewQueueIsFound for one
// that doesn't.
func setup(t *testing.T, options ...func(*config.Sidecar)) *bundle {
	t.Helper()
	b := &bundle{pool: pgtest.New(t), app: newApp(t)}
	b.river = insertOnly(t, b.pool)
	b.wait(t, b.enqueue(t, `'warm_up'`), "available")
	startSidecar(t, b.pool, b.app, options...)
	return b
}

// insertOnly is the client that docs/river.md recommends: without queues it can't
// be started, works nothing, and is never elected.
func insertOnly(t *testing.T, pool *pgxpool.Pool) *river.Client[pgx.Tx] {
	t.Helper()
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Schema: "sched", Logger: logger()})
	require.NoError(t, err)
	return client
}

// startSidecar runs a sidecar until the end of the test, with everything fast.
func startSidecar(t *testing.T, pool *pgxpool.Pool, a *app, options ...func(*config.Sidecar)) {
	t.Helper()
	cfg := config.DefaultSidecar()
	cfg.Database = config.Database{URL: config.DSN(pgtest.DSN(pool)), PoolMax: 4}
	cfg.App.URL = a.url
	cfg.Admin.Addr = "127.0.0.1:0"
	cfg.ShutdownGrace = 40 * time.Second // what holds a call lets it go before
	cfg.PollInterval = 100 * time.Millisecond
	cfg.HeartbeatInterval, cfg.FenceAfter, cfg.EvictAfter = 500*time.Millisecond, 6*time.Second, 8*time.Second
	cfg.Retry.Base, cfg.Retry.Cap = 10*time.Millisecond, 100*time.Millisecond
	for _, option := range options {
		option(&cfg)
	}
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	log := slog.New(readiness{logger().Handler(), sync.OnceFunc(func() { close(ready) })})
	go func() { ended <- sidecar.RunSidecar(ctx, cfg, sidecar.Options{Logger: log, Version: "test"}) }()
	t.Cleanup(stop)
	select {
	case <-ready:
	case err := <-ended:
		require.FailNow(t, "the sidecar ended at once", "%v", err)
	case <-time.After(patience):
		require.FailNow(t, "the sidecar isn't ready")
	}
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
}

// readiness is a log that tells when the sidecar says that it is ready.
type readiness struct {
	slog.Handler
	ready func()
}

func (r readiness) Enabled(context.Context, slog.Level) bool { return true }

func (r readiness) Handle(ctx context.Context, record slog.Record) error {
	if record.Message == "sidecar ready" {
		r.ready()
	}
	if !r.Handler.Enabled(ctx, record.Level) {
		return nil
	}
	return r.Handler.Handle(ctx, record)
}

func (r readiness) WithAttrs(attrs []slog.Attr) slog.Handler {
	return readiness{r.Handler.WithAttrs(attrs), r.ready}
}

func (r readiness) WithGroup(name string) slog.Handler {
	return readiness{r.Handler.WithGroup(name), r.ready}
}

func logger() *slog.Logger {
	level := slog.LevelError + 1
	if os.Getenv("SCHED_TEST_LOG") != "" {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}

// job is the args of a River job of any kind.
type job struct {
	Name string `json:"name"`
	kind string
}

func (j job) Kind() string { return j.kind }

// insert adds a job with River's client and returns its row.
func (b *bundle) insert(t *testing.T, args river.JobArgs, opts *river.InsertOpts) *rivertype.JobRow {
	t.Helper()
	result, err := b.river.Insert(t.Context(), args, opts)
	require.NoError(t, err)
	require.False(t, result.UniqueSkippedAsDuplicate)
	return result.Job
}

// enqueue adds a task with SQL: the arguments of sched.enqueue, as written there.
func (b *bundle) enqueue(t *testing.T, arguments string) int64 {
	t.Helper()
	return scalar[int64](t, b.pool, "SELECT sched.enqueue("+arguments+")")
}

// wait waits for a task's status as sched.task shows it.
func (b *bundle) wait(t *testing.T, id int64, status string) {
	t.Helper()
	var last string
	require.Eventuallyf(t, func() bool {
		last = b.status(t, id)
		return last == status
	}, patience, tick, "task %d should become %s, is %s", id, status, last)
}

func (b *bundle) status(t *testing.T, id int64) string {
	t.Helper()
	return scalar[string](t, b.pool, `SELECT status::text FROM sched.task WHERE id = $1`, id)
}

// scalar reads one value.
func scalar[T any](t *testing.T, pool *pgxpool.Pool, sql string, args ...any) T {
	t.Helper()
	var value T
	require.NoError(t, pool.QueryRow(t.Context(), sql, args...).Scan(&value))
	return value
}

func eventually(t *testing.T, condition func() bool, what string) {
	t.Helper()
	require.Eventually(t, condition, patience, tick, what)
}
