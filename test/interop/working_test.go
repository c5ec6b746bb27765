package interop_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/config"
)

// goArgs are a job that a foreign client works itself.
type goArgs struct {
	Fail bool `json:"fail"`
	Wait bool `json:"wait"` // for the client to stop
}

func (goArgs) Kind() string { return "in_go" }

type goWorker struct {
	river.WorkerDefaults[goArgs]
}

func (goWorker) Work(ctx context.Context, j *river.Job[goArgs]) error {
	if err := river.RecordOutput(ctx, map[string]int{"attempt": j.Attempt}); err != nil {
		return err
	}
	if j.Args.Wait {
		<-ctx.Done()
	}
	if j.Args.Fail {
		return errors.New("no luck in Go")
	}
	return nil
}

// working starts a client of River that works a queue of its own beside our
// sidecars, until the end of the test. It takes no part in the election unless
// that is what a test is about.
func working(t *testing.T, pool *pgxpool.Pool, options ...func(*river.Config)) *river.Client[pgx.Tx] {
	t.Helper()
	workers := river.NewWorkers()
	river.AddWorker(workers, goWorker{})
	cfg := &river.Config{
		ID: "foreign-" + t.Name(), Schema: "sched", Logger: logger(), Workers: workers,
		Queues:                 map[string]river.QueueConfig{"go-only": {MaxWorkers: 5}},
		FetchCooldown:          10 * time.Millisecond,
		LeaderElectionDisabled: true,
	}
	for _, option := range options {
		option(cfg)
	}
	client, err := river.NewClient(riverpgxv5.New(pool), cfg)
	require.NoError(t, err)
	require.NoError(t, client.Start(context.WithoutCancel(t.Context())))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(t, client.StopAndCancel(ctx))
	})
	return client
}

// onlyDefault keeps a sidecar away from the foreign client's queue.
func onlyDefault(c *config.Sidecar) { c.Queues = []string{"default"} }

func TestWorkingClient_BesideSidecars(t *testing.T) {
	t.Parallel()
	b := setup(t, onlyDefault)
	client := working(t, b.pool)
	events, cancel := client.Subscribe(river.EventKindJobCompleted, river.EventKindJobFailed)
	t.Cleanup(cancel)

	bySQL := b.enqueue(t, `'in_go', '{"fail": false}', queue => 'go-only'`)
	fails := b.insert(t, goArgs{Fail: true}, &river.InsertOpts{Queue: "go-only", MaxAttempts: 1})
	ours := b.insert(t, job{"", "greet"}, nil)
	b.wait(t, bySQL, "completed")
	b.wait(t, fails.ID, "discarded")
	b.wait(t, ours.ID, "completed")

	// Its events are those of its own jobs; of ours it hears nothing.
	seen := map[int64]river.EventKind{}
	for len(seen) < 2 {
		select {
		case event := <-events:
			seen[event.Job.ID] = event.Kind
		case <-time.After(patience):
			require.FailNow(t, "no event")
		}
	}
	require.Equal(t, map[int64]river.EventKind{bySQL: river.EventKindJobCompleted, fails.ID: river.EventKindJobFailed}, seen)
	require.Empty(t, events)

	// The views show its work as they show ours.
	require.Equal(t, client.ID(), scalar[string](t, b.pool, `SELECT worker_id FROM sched.task WHERE id = $1`, bySQL))
	require.JSONEq(t, `{"attempt": 1}`, scalar[string](t, b.pool, `SELECT output::text FROM sched.task WHERE id = $1`, bySQL))
	require.Equal(t, "no luck in Go", scalar[string](t, b.pool, `SELECT error FROM sched.task WHERE id = $1`, fails.ID))
	require.Equal(t, []string{"1 discarded"}, b.attempts(t, fails.ID))
	require.Empty(t, b.app.callsOf(bySQL))
}

// Without leader election nobody promotes, rescues or cleans up but our leader:
// what a foreign worker retries comes back through our promoter.
func TestWorkingClient_RetriesComeBackThroughOurLeader(t *testing.T) {
	t.Parallel()
	b := setup(t, onlyDefault)
	working(t, b.pool, func(c *river.Config) { c.RetryPolicy = shortRetries{} })

	row := b.insert(t, goArgs{Fail: true}, &river.InsertOpts{Queue: "go-only", MaxAttempts: 2})
	b.wait(t, row.ID, "discarded")
	require.Len(t, b.get(t, row.ID).Errors, 2)
	require.NotContains(t, scalar[string](t, b.pool, `SELECT leader_id FROM sched.river_leader`), "foreign-")
}

type shortRetries struct{}

func (shortRetries) NextRetry(*rivertype.JobRow) time.Time {
	// Far enough ahead that River doesn't keep it available for itself.
	return time.Now().Add(6 * time.Second)
}
