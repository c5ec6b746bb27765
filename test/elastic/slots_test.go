package elastic_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/fleettest"
)

// Slots grow with what arrives, stay while the app is down, and shrink when nothing
// arrives any more.
func TestSlotsFollowWhatArrives(t *testing.T) {
	t.Parallel()
	f, a := newFleet(t), newApp(t)
	_, worker := f.start(a)
	f.await(fleettest.Leaderless, "nobody leads", "SELECT computed_at > now() - interval '5 seconds' FROM sched.fleet")

	const many = 30_000 // more than the ceiling works in the time
	f.enqueue(many)
	f.awaitSlots(worker, ">=", 2*start)
	f.await(fleettest.Soon, "the row doesn't tell", "SELECT forecast > 0 AND demand > 0 AND score > 0 AND score_pending > 0 FROM sched.worker WHERE id = $1", worker)
	require.LessOrEqual(t, one[int](f, "SELECT max(to_value::int) FROM sched.decision WHERE what = 'slots'"), ceiling)
	require.LessOrEqual(t, one[float64](f, "SELECT max(to_value::int / from_value::float8) FROM sched.decision WHERE what = 'slots'"), 2.0, "at most twice as many at a time")

	a.off()
	f.await(fleettest.Soon, "not frozen", "SELECT elastic_reason = 'frozen' FROM sched.worker WHERE id = $1", worker)
	written := time.NewTimer(2 * time.Second) // of a decision from just before
	defer written.Stop()
	<-written.C
	frozen := f.slots(worker)
	const longerThanTheCooldown = 4 * time.Second
	fleettest.Throughout(t, longerThanTheCooldown, func() bool { return f.slots(worker) == frozen }, f.decisions)
	a.on()
	f.await(fleettest.Soon, "still frozen", "SELECT elastic_reason <> 'frozen' FROM sched.worker WHERE id = $1", worker)

	_, err := f.db.Exec(t.Context(), "SELECT sched.cancel(id) FROM sched.river_job WHERE kind = 'load' AND state IN ('available', 'retryable', 'scheduled')")
	require.NoError(t, err)
	f.awaitSlots(worker, "<=", least)
}

func (f *fleet) requireSettingsHold(within time.Duration) {
	f.t.Helper()
	a := newApp(f.t)
	var workers []string
	for range 3 {
		_, worker := f.start(a)
		workers = append(workers, worker)
	}
	f.await(fleettest.Leaderless, "not all decide", "SELECT count(*) = 3 FROM sched.worker WHERE elastic_reason IN ('hold', 'cooldown', 'demand')")
	const more = 11
	f.set("elastic_min", "11")
	begin := one[time.Time](f, "SELECT clock_timestamp()")
	for _, worker := range workers {
		f.awaitSlots(worker, ">=", more)
		at := one[time.Time](f, "SELECT min(at) FROM sched.decision WHERE what = 'slots' AND subject = $1 AND to_value::int >= $2", worker, more)
		require.Less(f.t, at.Sub(begin), within, f.decisions())
	}
}

// Settings hold on every sidecar, without a restart.
func TestSettingsHoldEverywhere(t *testing.T) {
	t.Parallel()
	newFleet(t).requireSettingsHold(20 * time.Second)
}

// An app that turns tasks down gets fewer at once, and no attempt is spent on that.
func TestPushBackSpendsNoAttempt(t *testing.T) {
	t.Parallel()
	f, a := newFleet(t), newApp(t)
	_, worker := f.start(a)
	const tasks = 5000
	f.enqueue(tasks)
	f.awaitSlots(worker, ">", start)
	a.refuse(true)
	f.await(fleettest.Soon, "no push-back", `SELECT EXISTS (SELECT FROM sched.decision
		WHERE what = 'slots' AND subject = $1 AND reason LIKE 'push-back%' AND to_value::int < from_value::int)`, worker)
	a.refuse(false)
	f.await(6*fleettest.Soon, "not all completed", "SELECT count(*) = $1 FROM sched.task WHERE kind = 'load' AND status = 'completed'", tasks)
	require.Zero(t, one[int](f, "SELECT count(*)::int FROM sched.task WHERE kind = 'load' AND attempt <> 1"), "an attempt was spent")
	require.Positive(t, one[int](f, "SELECT count(*)::int FROM sched.attempt WHERE outcome = 'snooze'"))
}

// What doesn't fit is refused where it is written, and what was stays.
func TestBadSettingsAreRefused(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	for key, values := range map[string][]string{
		"elastic_weights":          {`"0.5/0.5/0.5"`, `"0.4/0.6"`, `"-0.2/0.6/0.6"`, `"a/b/c"`, `0.4`, `["0.4", 0.3, 0.3]`},
		"elastic_profile":          {`"fast"`, `1`},
		"elastic_preset":           {`"compute"`},
		"elastic_alpha":            {`1.5`, `-0.1`, `"0.5"`},
		"elastic_threshold":        {`0`, `1.01`},
		"elastic_min":              {`0`, `-1`, `2.5`, `5001`},
		"elastic_cooldown_seconds": {`0`, `3601`},
	} {
		before := one[string](f, "SELECT value::text FROM sched.setting WHERE key = $1", key)
		for _, value := range values {
			_, err := f.db.Exec(t.Context(), "UPDATE sched.setting SET value = $2::jsonb WHERE key = $1", key, value)
			var refused *pgconn.PgError
			require.ErrorAs(t, err, &refused, "%s %s", key, value)
			require.Equal(t, "setting_elastic_fits", refused.ConstraintName, "%s %s", key, value)
		}
		require.Equal(t, before, one[string](f, "SELECT value::text FROM sched.setting WHERE key = $1", key))
	}
	f.set("elastic_weights", `"0.5/0.1/0.4"`)
}
