package protocols_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/fleettest"
)

func TestOutcomes(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, f *fleet) {
		done, again, hopeless := f.enqueue(t, doComplete, ""), f.enqueue(t, doRetryOnce, ""), f.enqueue(t, doCancel, "")
		f.start(t, nil)

		r := f.await(t, done, "completed")
		require.JSONEq(t, `{"attempt": 1}`, r.output)
		require.Equal(t, 1, r.attempt)

		r = f.await(t, again, "completed")
		require.JSONEq(t, `{"attempt": 2}`, r.output)
		require.Equal(t, 2, r.attempt)
		var failure string
		require.NoError(t, f.db.QueryRow(t.Context(), "SELECT error::text FROM sched.attempt WHERE task_id = $1 AND outcome = 'retry'", again).Scan(&failure))
		require.Contains(t, failure, errRetry.Error())

		r = f.await(t, hopeless, "cancelled")
		require.Contains(t, r.problem, errCancel.Error())
		require.Equal(t, 1, f.count(t, "public.seen WHERE task_id = $1", hopeless))
	})
}

// A command has no way to ask for it.
func TestSnoozeSpendsNoAttempt(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, f *fleet) {
		if f.protocol == "exec" {
			t.Skip("exec has no snooze")
		}
		id := f.enqueue(t, doSnoozeOnce, "")
		f.start(t, nil)
		r := f.await(t, id, "completed")
		require.Equal(t, 1, r.attempt)
		require.Equal(t, 1, r.snoozes)
		require.JSONEq(t, `{"attempt": 1}`, r.output)
	})
}

func TestDeadlineEndsAnAttempt(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, f *fleet) {
		id := f.enqueue(t, doHang, ", timeout => '2 seconds', max_attempts => 1")
		f.start(t, nil)
		r := f.await(t, id, "discarded")
		require.NotEmpty(t, r.problem)
		require.Equal(t, 1, r.attempt)
	})
}

func TestCancelEndsARunningTask(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, f *fleet) {
		id := f.enqueue(t, doHang, "")
		f.start(t, nil)
		f.awaitSeen(t, id, 1)
		_, err := f.db.Exec(t.Context(), "SELECT sched.cancel($1)", id)
		require.NoError(t, err)
		f.await(t, id, "cancelled")
	})
}

// The sidecar is killed while the app works: another one's attempt has the effect,
// once.
func TestSidecarKilledMidTask(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, f *fleet) {
		id := f.enqueue(t, doHangOnce, "")
		first := f.start(t, nil)
		f.awaitSeen(t, id, 1)
		first.Kill()
		f.start(t, nil)
		r := f.await(t, id, "completed")
		require.Equal(t, 1, r.lost)
		require.JSONEq(t, `{"own": true}`, r.output)
		require.Equal(t, 1, f.count(t, "public.effect WHERE task_id = $1", id))
	})
}

// The app is killed while it works: its next attempt has the effect, once.
func TestAppKilledMidTask(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, f *fleet) {
		id := f.enqueue(t, doDieOnce, "")
		f.start(t, nil)
		f.awaitSeen(t, id, 1)
		if f.app != nil {
			f.app.AwaitExit(t, patience)
			f.startApp(t)
		}
		r := f.await(t, id, "completed")
		require.Zero(t, r.lost, "no worker died")
		require.JSONEq(t, `{"own": true}`, r.output)
		require.Equal(t, 1, f.count(t, "public.effect WHERE task_id = $1", id))
	})
}

func TestDrainFinishesWhatRuns(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, f *fleet) {
		sidecar := f.start(t, fleettest.Settings{fleettest.SetSlots: "1"})
		running := f.enqueue(t, doWork, "")
		f.awaitSeen(t, running, 1)
		waiting := f.enqueue(t, doComplete, "")
		sidecar.Signal(syscall.SIGTERM)
		require.Zero(t, sidecar.AwaitExit(t, patience))
		require.Equal(t, "completed", f.row(t, running).status)
		require.Equal(t, "available", f.row(t, waiting).status)
		require.Zero(t, f.count(t, "public.seen WHERE task_id = $1", waiting))
	})
}

// Many tasks complete in the app's transactions while a sidecar is killed among
// them: each has its effect exactly once.
func TestExactlyOneEffect(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, f *fleet) {
		const tasks = 40
		_, err := f.db.Exec(t.Context(), `SELECT count(*) FROM sched.enqueue_many(
			(SELECT jsonb_agg(jsonb_build_object('kind', $1::text, 'args', jsonb_build_object('do', $2::text))) FROM generate_series(1, $3::int)))`, kind, doEffect, tasks)
		require.NoError(t, err)
		set := fleettest.Settings{fleettest.SetSlots: "4"}
		first := f.start(t, set)
		fleettest.Eventually(t, patience, func() bool { return f.count(t, "public.effect") >= tasks/4 }, func() string { return "the tasks don't run" })
		first.Kill()
		f.start(t, set)
		left := tasks
		fleettest.Eventually(t, patience, func() bool {
			left = f.count(t, "sched.task WHERE status <> 'completed'")
			return left == 0
		}, func() string { return "some tasks aren't completed" })
		require.Equal(t, tasks, f.count(t, "public.effect"))
	})
}
