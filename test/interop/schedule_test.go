package interop_test

import (
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

func TestInsert_ScheduledAt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	eventually(t, func() bool { return leaderOf(t, b) != "" }, "the sidecar should be elected")
	due := time.Now().Add(3 * time.Second)

	row := b.insert(t, job{"", "later"}, &river.InsertOpts{ScheduledAt: due})
	require.Equal(t, rivertype.JobStateScheduled, row.State)
	past := b.insert(t, job{"", "overdue"}, &river.InsertOpts{ScheduledAt: time.Now().Add(-time.Hour)})

	b.wait(t, past.ID, "completed")
	b.wait(t, row.ID, "completed")
	started := scalar[time.Time](t, b.pool, `SELECT start_time FROM sched.task WHERE id = $1`, row.ID)
	require.False(t, started.Before(due), "not before its time")
	// River announces no due time: the leader's look each second finds it.
	require.WithinDuration(t, due, started, 15*time.Second)
}

// A pending job is held back until somebody releases it: River's retry, or ours.
func TestInsert_Pending(t *testing.T) {
	t.Parallel()
	b := setup(t)
	byRiver := b.insert(t, job{"", "held"}, &river.InsertOpts{Pending: true})
	bySQL := b.insert(t, job{"", "held"}, &river.InsertOpts{Pending: true})
	require.Equal(t, rivertype.JobStatePending, byRiver.State)

	b.wait(t, b.insert(t, job{"", "after"}, nil).ID, "completed")
	require.Equal(t, "pending", b.status(t, byRiver.ID))
	require.Equal(t, "pending", b.status(t, bySQL.ID))

	_, err := b.river.JobRetry(t.Context(), byRiver.ID)
	require.NoError(t, err)
	require.Equal(t, "available", scalar[string](t, b.pool, `SELECT sched.retry($1)`, bySQL.ID))
	b.wait(t, byRiver.ID, "completed")
	b.wait(t, bySQL.ID, "completed")
}

// River enqueues periodic jobs on its leader. The clients that docs/river.md
// allows are none, and River says so itself.
func TestPeriodicJobs_AreRefused(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	require.Panics(t, func() { insertOnly(t, pool).PeriodicJobs() })
	periodic := river.NewPeriodicJob(river.PeriodicInterval(time.Hour), func() (river.JobArgs, *river.InsertOpts) { return job{"", "periodic"}, nil }, nil)
	workers := river.NewWorkers()
	river.AddWorker(workers, goWorker{})
	_, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Schema: "sched", LeaderElectionDisabled: true, PeriodicJobs: []*river.PeriodicJob{periodic},
		Queues: map[string]river.QueueConfig{"go-only": {MaxWorkers: 1}}, Workers: workers,
	})
	require.ErrorContains(t, err, "PeriodicJobs must be empty")
}
