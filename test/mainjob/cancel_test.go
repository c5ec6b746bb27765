package mainjob_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func cancelTask(t *testing.T, db database, id int64) string {
	t.Helper()
	var status string
	require.NoError(t, db.QueryRow(t.Context(), "SELECT sched.cancel($1)", id).Scan(&status))
	return status
}

func TestCancelReachesARunningTask(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := newApp(t, func(c *call) answer {
		<-c.ctx.Done() // the cancel comes as a closed connection
		return answer{status: http.StatusOK}
	})
	f.start(a, nil)
	for range 5 {
		id := enqueue(t, f.db, "endless")
		c := a.await(t, id, 1, soon)
		require.Equal(t, "running", cancelTask(t, f.db, id))
		k := awaitStatus(t, f.db, id, "cancelled", soon)
		awaitEnd(t, c)
		require.NotNil(t, k.EndTime)
		require.Len(t, a.callsOf(id), 1)
		require.Equal(t, "cancelled", cancelTask(t, f.db, id), "again changes nothing")
	}
}

// A task that was cancelled doesn't run again, whatever its attempt comes to.
func TestCancelledTaskIsNotRetried(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	answers := map[string]answer{
		"fails":   {status: http.StatusInternalServerError},
		"snoozes": {status: http.StatusServiceUnavailable, header: map[string]string{"Retry-After": "0"}},
		"lacks":   {status: http.StatusNotFound},
	}
	// The handlers don't look at the connection and answer when they have.
	hold := newTurnstile(t)
	a := newApp(t, nil)
	a.handle = func(c *call) answer {
		<-hold.gate(c.id).ch
		return answers[c.kind]
	}
	f.start(a, nil)
	for kind := range answers {
		id := enqueue(t, f.db, kind)
		a.await(t, id, 1, soon)
		cancelTask(t, f.db, id)
		hold.open(id)
		awaitStatus(t, f.db, id, "cancelled", soon)
		require.Len(t, a.callsOf(id), 1)
	}
}

// A cancel whose task's worker is dead is carried out when that is noticed.
func TestCancelOutlivesTheWorker(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.startLeader()
	a := newApp(t, func(c *call) answer {
		<-c.ctx.Done()
		return answer{status: http.StatusOK}
	})
	s := f.start(a, nil)
	id := enqueue(t, f.db, "endless")
	c := a.await(t, id, 1, soon)
	s.suspend(t)
	require.Equal(t, "running", cancelTask(t, f.db, id))
	s.kill()
	f.start(a, nil)
	f.awaitEvicted(c.worker(), soon)
	awaitStatus(t, f.db, id, "cancelled", soon)
	require.Len(t, a.callsOf(id), 1)
}

// Notifications may be off, or lost: polls find what they would have said.
func TestWithoutNotifications(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	_, err := f.db.Exec(t.Context(), "UPDATE sched.setting SET value = 'false' WHERE key = 'notify'")
	require.NoError(t, err)
	a := newApp(t, func(c *call) answer {
		if c.kind == "endless" {
			<-c.ctx.Done()
		}
		return answer{status: http.StatusOK}
	})
	f.start(a, nil)
	awaitStatus(t, f.db, enqueue(t, f.db, "task"), "completed", soon)
	awaitStatus(t, f.db, enqueue(t, f.db, "task", with("queue", "new_queue")), "completed", soon)
	awaitStatus(t, f.db, enqueue(t, f.db, "timed", with("run_at", time.Now().Add(time.Second))), "completed", soon)
	id := enqueue(t, f.db, "endless")
	a.await(t, id, 1, soon)
	// A cancel that nobody hears of: a River client without NOTIFY writes no more.
	_, err = f.db.Exec(t.Context(), "UPDATE sched.river_job SET metadata = metadata || jsonb_build_object('cancel_attempted_at', now()) WHERE id = $1", id)
	require.NoError(t, err)
	awaitStatus(t, f.db, id, "cancelled", soon)
}

func TestCancelReachesAnAcceptedTask(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := newApp(t, func(*call) answer { return answer{status: http.StatusAccepted} })
	s := f.start(a, nil)
	id := enqueue(t, f.db, "accepted")
	c := a.await(t, id, 1, soon)
	awaitEnd(t, c)
	cancelTask(t, f.db, id)
	awaitStatus(t, f.db, id, "cancelled", soon)
	eventually(t, soon, func() bool { return a.revocation(id) == "cancelled" }, func() string { return "the app doesn't hear of it" })
	status, _ := s.tryToSettle(t, id, c.lease, "complete", `{}`)
	require.Equal(t, http.StatusConflict, status)
	require.Equal(t, "cancelled", readTask(t, f.db, id).Status)
}

func TestCancelOfAWaitingTaskNeverReachesTheApp(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := newApp(t, nil)
	id := enqueue(t, f.db, "cancelled")
	require.Equal(t, "cancelled", cancelTask(t, f.db, id))
	f.start(a, nil)
	awaitStatus(t, f.db, enqueue(t, f.db, "other"), "completed", soon)
	require.Empty(t, a.callsOf(id))

	_, err := f.db.Exec(t.Context(), "SELECT sched.cancel(987654321)")
	requireRefusal(t, err, "SC404")
}

// A cancel that races with an answer ends in one of the two, never in both or
// in neither.
func TestCancelRacesWithAnswers(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := newApp(t, f.effectHandler())
	f.start(a, nil)
	for range 40 {
		id := enqueue(t, f.db, "racing")
		a.await(t, id, 1, soon)
		cancelTask(t, f.db, id)
		k := awaitTask(t, f.db, id, soon, "finished", func(k task) bool { return k.EndTime != nil })
		var effects int
		require.NoError(t, f.db.QueryRow(t.Context(), "SELECT count(*) FROM effect WHERE task_id = $1", id).Scan(&effects))
		switch k.Status {
		case "completed":
			require.Equal(t, 1, effects)
		case "cancelled":
			require.Zero(t, effects, "a cancelled task's effect was rolled back")
		default:
			require.Fail(t, k.String())
		}
	}
}

func (f *fleet) effectHandler() func(*call) answer {
	return func(c *call) answer { return f.effectOnce(c) }
}
