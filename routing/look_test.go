package routing_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/routing"
)

func (l *lead) look() *routing.Look {
	l.t.Helper()
	look, err := l.router.Look(l.t.Context())
	require.NoError(l.t, err)
	return look
}

// A look tells whether there is something to do, so that a turn of an idle fleet does nothing else.
func TestLookTellsWhatThereIsToDo(t *testing.T) {
	t.Parallel()
	l := setup(t)
	idle := l.look()
	require.False(t, idle.Waiting)
	require.False(t, idle.SchedulesDue)
	require.Equal(t, time.Hour, idle.NextDue)
	require.Zero(t, idle.NewestID)
	require.Empty(t, idle.Beats)

	l.exec(`select sched.enqueue('k', run_at => now() + interval '30 minutes')`)
	soon := l.look()
	require.False(t, soon.Waiting, "it isn't due yet")
	require.Greater(t, soon.NextDue, time.Duration(0))
	require.LessOrEqual(t, soon.NextDue, 30*time.Minute)
	require.EqualValues(t, 1, soon.NewestID)

	l.exec(`update sched.river_job set scheduled_at = 'infinity'`)
	require.Equal(t, time.Hour, l.look().NextDue)
	l.exec(`update sched.river_job set scheduled_at = now() - interval '1 minute'`)
	require.Zero(t, l.look().NextDue)
	l.exec(`update sched.river_job set scheduled_at = '-infinity'`)
	require.Zero(t, l.look().NextDue)

	l.exec(`select sched.enqueue('k')`)
	require.True(t, l.look().Waiting)
	l.exec(`insert into sched.schedule (name, cron, kind) values ('nightly', '0 3 * * *', 'k')`)
	require.True(t, l.look().SchedulesDue, "it has no time yet")
	l.exec(`update sched.schedule set paused = true`)
	require.False(t, l.look().SchedulesDue)
}

func TestLookLeavesOutWhoWasEvicted(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.worker("w-1", `{}`)
	l.worker("w-2", `{}`)
	l.queue("mail", `{}`, "any")
	look := l.look()
	require.Len(t, look.Beats, 2)
	look.Drop("w-1")
	require.NoError(t, l.router.Turn(t.Context(), look))
	require.Equal(t, []string{"w-2"}, l.texts(`select worker_id from sched.assignment where queue = 'mail'`))
}

// Whether tasks wait is a look at the largest table: where that takes too long, the leader
// goes on as if there were some.
func TestSlowLookAtTasksStopsNothing(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.worker("w-1", `{}`)
	l.queue("mail", `{}`, "any")
	tx, err := l.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `lock table sched.river_job in access exclusive mode`)
	require.NoError(t, err)
	look := l.look()
	require.True(t, look.Waiting)
	require.Zero(t, look.NextDue)
	require.Len(t, look.Beats, 1)
	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, l.router.Turn(t.Context(), look))
	require.True(t, l.look().Waiting, "it isn't asked for a while")
}
