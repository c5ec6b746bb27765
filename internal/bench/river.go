package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// River as the baseline, and what each side may use.
const (
	riverMaxWorkers    = 2000
	riverFetchCooldown = time.Millisecond
	riverTable         = "public.river_job"
	riverStopTimeout   = 10 * time.Second
	poolMax            = 10 // connections; the sidecar's default
	fillBatch          = 10000
)

// noopArgs are the args of the tasks that both sides work.
type noopArgs struct {
	N   int   `json:"n"`
	Due int64 `json:"due,omitempty"` // nanoseconds since 1970; 0: at once
}

const noopKind = "bench.noop"

// Kind is River's name for the task.
func (noopArgs) Kind() string { return noopKind }

type noopWorker struct {
	river.WorkerDefaults[noopArgs]
	recorder *recorder
}

// Work does nothing, and says so.
func (w *noopWorker) Work(_ context.Context, job *river.Job[noopArgs]) error {
	w.recorder.record(job.ID)
	return nil
}

// riverClient is a River client on a pool of its own.
type riverClient struct {
	*river.Client[pgx.Tx]
	pool *pgxpool.Pool
}

// newRiver returns a client that works when it has a recorder, and only inserts
// without one.
func newRiver(ctx context.Context, dsn string, recorder *recorder) (*riverClient, error) {
	poolConfig, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("river's database: %w", err)
	}
	poolConfig.MaxConns = poolMax
	pool, err := pgxpool.NewWithConfig(ctx, poolConfig)
	if err != nil {
		return nil, fmt.Errorf("river's database: %w", err)
	}
	config := &river.Config{
		// A client that only inserts needs it too: it sends no more notifications.
		FetchCooldown: riverFetchCooldown,
		Logger:        slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if recorder != nil {
		config.Queues = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: riverMaxWorkers}}
		config.Workers = river.NewWorkers()
		river.AddWorker(config.Workers, &noopWorker{recorder: recorder})
	}
	client, err := river.NewClient(riverpgxv5.New(pool), config)
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("river client: %w", err)
	}
	return &riverClient{client, pool}, nil
}

func startRiver(ctx context.Context, dsn string, recorder *recorder) (*riverClient, error) {
	client, err := newRiver(ctx, dsn, recorder)
	if err != nil {
		return nil, err
	}
	// Its end comes with stop, not with ctx, which would end what it works.
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		client.pool.Close()
		return nil, fmt.Errorf("start river: %w", err)
	}
	return client, nil
}

func (c *riverClient) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), riverStopTimeout)
	defer cancel()
	err := c.Stop(ctx)
	c.pool.Close()
	if err != nil {
		return fmt.Errorf("stop river: %w", err)
	}
	return nil
}

// migrateRiver gives a database River's own tables and indexes.
func migrateRiver(ctx context.Context, pool *pgxpool.Pool) error {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return fmt.Errorf("river's migrations: %w", err)
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return fmt.Errorf("river's migrations: %w", err)
	}
	return nil
}

// fillRiver inserts tasks the fast way that River offers.
func fillRiver(ctx context.Context, dsn string, tasks int) (err error) {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	client, err := newRiver(ctx, dsn, nil)
	if err != nil {
		return err
	}
	defer client.pool.Close()
	for done := 0; done < tasks; done += fillBatch {
		batch := make([]river.InsertManyParams, min(fillBatch, tasks-done))
		for i := range batch {
			batch[i].Args = noopArgs{N: done + i}
		}
		n, err := client.InsertManyFast(ctx, batch)
		if err == nil && n != len(batch) {
			err = errors.New("some were left out")
		}
		if err != nil {
			return fmt.Errorf("filling river's table: %w", err)
		}
	}
	return nil
}
