package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/sched-sidecar/sched/jobs"
)

const (
	singleConnections = 8
	bulkTasks         = 10000 // in a call
	singleRiverBound  = 1.5
	bulkRiverBound    = 1.0
)

// adder is one way to add tasks with a library for Go, in a transaction of the
// caller's.
type adder struct {
	name  string
	river bool // into River's database
	add   func(ctx context.Context, tx pgx.Tx, n int) (added int, err error)
}

// singleAdders add one task at a time.
func singleAdders(client *river.Client[pgx.Tx]) []adder {
	return []adder{
		{"river InsertTx", true, func(ctx context.Context, tx pgx.Tx, n int) (int, error) {
			_, err := client.InsertTx(ctx, tx, noopArgs{N: n}, nil)
			return 1, err
		}},
		{"sched EnqueueTx", false, func(ctx context.Context, tx pgx.Tx, n int) (int, error) {
			_, err := jobs.EnqueueTx(ctx, tx, noopArgs{N: n})
			return 1, err
		}},
	}
}

// bulkAdders add many at a time.
func bulkAdders(client *river.Client[pgx.Tx]) []adder {
	return []adder{
		{"river InsertManyFastTx", true, func(ctx context.Context, tx pgx.Tx, n int) (int, error) {
			batch := make([]river.InsertManyParams, bulkTasks)
			for i := range batch {
				batch[i].Args = noopArgs{N: n*bulkTasks + i}
			}
			return client.InsertManyFastTx(ctx, tx, batch)
		}},
		{"sched EnqueueManyTx", false, func(ctx context.Context, tx pgx.Tx, n int) (int, error) {
			ids, err := jobs.EnqueueManyTx(ctx, tx, bulkOf(n))
			return len(ids), err
		}},
	}
}

func bulkOf(n int) []jobs.Task {
	batch := make([]jobs.Task, bulkTasks)
	for i := range batch {
		batch[i].Args = noopArgs{N: n*bulkTasks + i}
	}
	return batch
}

// enqueueRiver compares enqueues through both libraries for Go: the caller's
// transaction is begun, gets its tasks, and commits.
func (r *Runner) enqueueRiver(ctx context.Context, sched *database) (figures []Figure, err error) {
	theirs, err := r.server.createDatabase(ctx, "enqueue_river")
	if err != nil {
		return nil, err
	}
	defer func() { err = closing(err, theirs.drop) }()
	if err := migrateRiver(ctx, theirs.pool); err != nil {
		return nil, err
	}
	// The pool of a client that only inserts in others' transactions stays unused.
	client, err := river.NewClient(riverpgxv5.New(theirs.pool), &river.Config{FetchCooldown: riverFetchCooldown, Logger: discardLogger()})
	if err != nil {
		return nil, fmt.Errorf("river client: %w", err)
	}
	single, err := r.adderRounds(ctx, sched, theirs, singleConnections, singleAdders(client))
	if err != nil {
		return nil, err
	}
	bulk, err := r.adderRounds(ctx, sched, theirs, 1, bulkAdders(client))
	if err != nil {
		return nil, err
	}
	return []Figure{
		newFigure("enqueue.single.vs_river", median(single[1]), "ratio", AtLeast(singleRiverBound), r.config.Rounds),
		newFigure("enqueue.bulk.vs_river", median(bulk[1]), "ratio", AtLeast(bulkRiverBound), r.config.Rounds),
	}, nil
}

// adderRounds has the adders take turns and returns, for each, its rate by that of
// the first, round by round.
func (r *Runner) adderRounds(ctx context.Context, sched, theirs *database, connections int, adders []adder) ([][]float64, error) {
	ratios := make([][]float64, len(adders))
	for i := range r.config.Rounds {
		first := 0.0
		for k, a := range adders {
			db := sched
			if a.river {
				db = theirs
			}
			rate, err := r.adderRate(ctx, db, a, connections)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", a.name, err)
			}
			if k == 0 {
				first = rate
			}
			ratios[k] = append(ratios[k], rate/first)
			r.report.note("enqueue round %d of %d, %d connections: %s %.0f/s, ratio %.2f", i+1, r.config.Rounds, connections, a.name, rate, rate/first)
		}
	}
	return ratios, nil
}

// adderRate is how many tasks a second an adder adds, its table empty at first.
func (r *Runner) adderRate(ctx context.Context, db *database, a adder, connections int) (float64, error) {
	if a.river {
		if _, err := db.pool.Exec(ctx, "truncate "+riverTable); err != nil {
			return 0, err
		}
		if err := db.settle(ctx, riverTable); err != nil {
			return 0, err
		}
	} else if err := db.setQueue(ctx, enqueuer{workers: enqueueFewWorkers, busy: true}); err != nil {
		return 0, err
	}
	duration := r.config.Enqueue.Duration
	ctx, cancel := context.WithTimeoutCause(ctx, duration+setupTimeout, errors.New("it took too long"))
	defer cancel()
	config, err := pgxpool.ParseConfig(db.dsn)
	if err != nil {
		return 0, err
	}
	config.MaxConns, config.MinConns = int32(connections), int32(connections)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	var calls, added atomic.Int64
	add := func() error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			n, err := a.add(ctx, tx, int(calls.Add(1)))
			added.Add(int64(n))
			return err
		})
	}
	if err := together(connections, add); err != nil { // once each, so that all is planned
		return 0, err
	}
	warm, began := added.Load(), time.Now()
	err = together(connections, func() error {
		for time.Since(began) < duration {
			if err := add(); err != nil {
				return err
			}
		}
		return nil
	})
	took := time.Since(began)
	if err != nil {
		return 0, err
	}
	table := schedTable
	if a.river {
		table = riverTable
	}
	var stored int64
	if err := db.pool.QueryRow(ctx, "select count(*) from "+table+" where state = 'available'").Scan(&stored); err != nil {
		return 0, err
	}
	if stored != added.Load() {
		return 0, fmt.Errorf("%d of %d tasks are in the table", stored, added.Load())
	}
	return float64(added.Load()-warm) / took.Seconds(), nil
}

// together runs do n times at once and joins the errors.
func together(n int, do func() error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = do() })
	}
	wg.Wait()
	return errors.Join(errs...)
}
