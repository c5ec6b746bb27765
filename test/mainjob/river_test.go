package mainjob_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/require"
)

// greeting is a job as a user of River's Go client knows it.
type greeting struct {
	Name string `json:"name"`
}

func (greeting) Kind() string { return "greeting" }

// Tasks are River jobs: River's own client inserts, cancels, retries, and
// pauses queues, and a sidecar does what it says.
func TestRiversClientWorksOnTheSameTasks(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	client, err := river.NewClient(riverpgxv5.New(f.db), &river.Config{Schema: "sched"})
	require.NoError(t, err)
	var fail atomic.Bool
	a := newApp(t, func(c *call) answer {
		switch {
		case c.kind == "greeting" && c.header.Get("Sched-Queue") == "endless":
			<-c.ctx.Done()
		case fail.Load():
			return answer{status: http.StatusInternalServerError, body: "on purpose"}
		}
		return answer{status: http.StatusOK, body: `{"done": true}`}
	})
	f.start(a, nil)
	ctx := t.Context()

	inserted, err := client.Insert(ctx, greeting{Name: "Ann"}, nil)
	require.NoError(t, err)
	awaitStatus(t, f.db, inserted.Job.ID, "completed", soon)
	require.JSONEq(t, `{"name": "Ann"}`, string(a.callsOf(inserted.Job.ID)[0].args))
	job, err := client.JobGet(ctx, inserted.Job.ID)
	require.NoError(t, err)
	require.Equal(t, rivertype.JobStateCompleted, job.State)
	require.JSONEq(t, `{"done": true}`, string(job.Output()))

	later, err := client.Insert(ctx, greeting{}, &river.InsertOpts{ScheduledAt: time.Now().Add(time.Second), Queue: "other_queue", Priority: 3, Tags: []string{"tag"}})
	require.NoError(t, err)
	awaitStatus(t, f.db, later.Job.ID, "completed", soon)

	endless, err := client.Insert(ctx, greeting{}, &river.InsertOpts{Queue: "endless"})
	require.NoError(t, err)
	c := a.await(t, endless.Job.ID, 1, soon)
	_, err = client.JobCancel(ctx, endless.Job.ID)
	require.NoError(t, err)
	awaitStatus(t, f.db, endless.Job.ID, "cancelled", soon)
	awaitEnd(t, c)
	require.True(t, c.brokenOff)

	fail.Store(true)
	failing, err := client.Insert(ctx, greeting{}, &river.InsertOpts{MaxAttempts: 2})
	require.NoError(t, err)
	awaitStatus(t, f.db, failing.Job.ID, "discarded", soon)
	job, err = client.JobGet(ctx, failing.Job.ID)
	require.NoError(t, err)
	require.Len(t, job.Errors, 2)
	require.Contains(t, job.Errors[1].Error, "on purpose")
	fail.Store(false)
	_, err = client.JobRetry(ctx, failing.Job.ID)
	require.NoError(t, err)
	awaitStatus(t, f.db, failing.Job.ID, "completed", soon)

	many := make([]river.InsertManyParams, 50)
	for i := range many {
		many[i] = river.InsertManyParams{Args: greeting{Name: "many"}}
	}
	_, err = client.InsertMany(ctx, many)
	require.NoError(t, err)
	eventually(t, soon, func() bool { return countTasks(t, f.db, "end_time IS NULL") == 0 }, func() string { return "not all inserted jobs ran" })
}

// Pausing a queue, as River UI does.
func TestRiversClientPausesQueues(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	client, err := river.NewClient(riverpgxv5.New(f.db), &river.Config{Schema: "sched"})
	require.NoError(t, err)
	a := newApp(t, nil)
	f.start(a, nil)
	awaitStatus(t, f.db, enqueue(t, f.db, "task", with("queue", "mail")), "completed", soon)

	eventually(t, soon, func() bool {
		_, err = client.QueueGet(t.Context(), "mail")
		return err == nil
	}, func() string { return "River doesn't know the queue: " + err.Error() })
	require.NoError(t, client.QueuePause(t.Context(), "mail", nil))
	other := enqueue(t, f.db, "task", with("queue", "other"))
	awaitStatus(t, f.db, other, "completed", soon)
	waiting := enqueue(t, f.db, "task", with("queue", "mail"))
	throughout(t, 2*time.Second, func() bool { return readTask(t, f.db, waiting).Status == "available" },
		func() string { return "ran in spite of the pause" })
	require.NoError(t, client.QueueResume(t.Context(), "mail", nil))
	awaitStatus(t, f.db, waiting, "completed", soon)
}
