package routing_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// ended makes n tasks of a queue that a worker ended, each after so many
// milliseconds.
func (l *lead) ended(queue, worker, state string, n, milliseconds int) {
	l.t.Helper()
	l.exec(`insert into sched.river_job (kind, queue, args, max_attempts, attempt, state, attempted_by, attempted_at, finalized_at, errors)
		select 'k', $1, '{}', 25, 1, $3::text::sched.river_job_state, array[$2], clock_timestamp() - $5 * interval '1 millisecond', clock_timestamp(),
			case when $3::text = 'completed' then null else array['{"attempt": 1, "error": "e"}'::jsonb] end
		from generate_series(1, $4)`, queue, worker, state, n, milliseconds)
}

func (l *lead) canary() string {
	l.t.Helper()
	return l.texts(`select percent || ' ' || state || ' ' || workers from sched.canary`)[0]
}

func canaryFleet(t *testing.T) *lead {
	t.Helper()
	l := setup(t)
	l.worker("w-old", `{}`)
	l.worker("w-new", `{"track": "canary"}`)
	l.queue("mail", `{}`, "any")
	l.queue("other", `{}`, "any")
	l.exec(`insert into sched.canary (queue, state, steps, hold) values ('mail', 'rising', '{5,50}', '1 millisecond')`)
	return l
}

func TestCanaryRisesWhileItIsGood(t *testing.T) {
	t.Parallel()
	l := canaryFleet(t)
	l.turn()
	require.Equal(t, "5 rising 1", l.canary())
	l.turn()
	require.Equal(t, "5 rising 1", l.canary(), "nothing has ended yet")
	l.ended("mail", "w-new", "completed", 30, 100)
	l.ended("mail", "w-old", "completed", 30, 100)
	l.ended("other", "w-new", "discarded", 30, 100) // not its queue
	l.turn()
	require.Equal(t, "50 rising 1", l.canary())
	l.turn()
	require.Equal(t, "50 rising 1", l.canary(), "what ended before the step doesn't count for it")

	l.ended("mail", "w-new", "completed", 30, 300)
	l.ended("mail", "w-old", "completed", 30, 100)
	before := l.texts(`select step_at::text from sched.canary`)
	l.turn()
	require.Equal(t, "50 rising 1", l.canary())
	require.Contains(t, l.texts(`select reason from sched.canary`)[0], "the 95th percentiles of run time differ by 20")
	require.NotEqual(t, before, l.texts(`select step_at::text from sched.canary`), "the hold begins anew")

	l.ended("mail", "w-new", "completed", 30, 100)
	l.ended("mail", "w-old", "completed", 30, 100)
	l.exec(`update sched.worker set cpu = 0.9 where id = 'w-new'`)
	l.turn()
	require.Contains(t, l.texts(`select reason from sched.canary`)[0], "the canary's cpu is 90.0 points higher")
	l.exec(`update sched.worker set cpu = 0`)
	l.ended("mail", "w-new", "completed", 30, 100)
	l.ended("mail", "w-old", "completed", 30, 100)
	l.turn()
	require.Equal(t, "100 rising 1", l.canary())
	l.ended("mail", "w-new", "completed", 30, 100)
	l.turn()
	require.Equal(t, "100 full 1", l.canary())
	require.Equal(t, []string{"rising 0 % > rising 5 %", "rising 5 % > rising 50 %", "rising 50 % > rising 100 %", "rising 100 % > full 100 %"},
		l.texts(`select from_value || ' > ' || to_value from sched.decision where what = 'canary' and subject = 'mail' order by id`))
}

// A canary worker that joins has its share at once, and one that leaves gives it up.
func TestCanaryWorkersAreCountedBetweenTurns(t *testing.T) {
	t.Parallel()
	l := canaryFleet(t)
	l.exec(`delete from sched.worker where id = 'w-new'`)
	l.turn()
	require.Equal(t, "0 rising 0", l.canary())
	l.worker("w-newer", `{"track": "canary"}`)
	require.NoError(t, l.router.Greet(t.Context()))
	require.Equal(t, "0 rising 1", l.canary(), "steps are a turn's")
	l.turn()
	require.Equal(t, "5 rising 1", l.canary())
	l.exec(`update sched.worker set state = 'draining' where id = 'w-newer'`)
	require.NoError(t, l.router.Greet(t.Context()))
	require.Equal(t, "5 rising 0", l.canary())
}

func TestCanaryGoesBackWhenItFails(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*lead){
		"discarded": func(l *lead) { l.ended("mail", "w-new", "discarded", 3, 100) },
		"cancelled": func(l *lead) { l.ended("mail", "w-new", "cancelled", 3, 100) },
		"retried": func(l *lead) {
			l.exec(`with job as (insert into sched.river_job (kind, queue, args, max_attempts, state, scheduled_at)
					select 'k', 'mail', '{}', 25, 'retryable', now() + interval '1 hour' from generate_series(1, 3) returning id)
				insert into sched.attempt_log (task_id, attempt, worker_id, started_at, ended_at, outcome)
				select id, 1, 'w-new', clock_timestamp(), clock_timestamp(), 'retry' from job`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := canaryFleet(t)
			l.turn()
			fail(l)
			l.turn()
			require.Equal(t, "0 rolled_back 1", l.canary())
			require.Equal(t, "3 of 3 attempts failed on the canary: 100.00 %, above 0.5 %", l.texts(`select reason from sched.canary`)[0])
			l.turn()
			require.Equal(t, "0 rolled_back 1", l.canary(), "and stays so")
		})
	}
}

func TestCanaryWithoutWorkersGivesItsTasksToTheOthers(t *testing.T) {
	t.Parallel()
	l := canaryFleet(t)
	l.turn()
	require.Equal(t, "5 rising 1", l.canary())
	l.exec(`update sched.worker set state = 'evicted' where id = 'w-new'`)
	l.turn()
	require.Equal(t, "5 rising 0", l.canary(), "at once")
	l.exec(`update sched.canary set state = 'held', percent = 20`)
	l.worker("w-newer", `{"track": "canary"}`)
	l.turn()
	require.Equal(t, "20 held 1", l.canary(), "an operator's percent stays")
	l.ended("mail", "w-newer", "completed", 30, 100)
	l.ended("mail", "w-old", "completed", 30, 100)
	l.exec(`update sched.canary set state = 'rising'`)
	l.turn()
	l.turn()
	require.Equal(t, "20 rising 1", l.canary(), "what ended before it rose again doesn't count")
}

func TestCanaryStepNeverWaitsForAnOperator(t *testing.T) {
	t.Parallel()
	l := canaryFleet(t)
	tx, err := l.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `update sched.canary set state = 'held', percent = 42`)
	require.NoError(t, err)
	l.turn()
	require.NoError(t, tx.Commit(t.Context()))
	l.turn()
	require.Equal(t, "42 held 1", l.canary())
}

func TestRetention(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.exec(`
		insert into sched.setting (key, value, description) values ('decision_keep_days', '1', 'd') on conflict (key) do update set value = excluded.value;
		insert into sched.decision (at, what, subject, who, reason) values (now() - interval '2 days', 'old', 's', 'w', 'r'), (now() - interval '23 hours', 'young', 's', 'w', 'r');
		insert into sched.topology_change (version, worker_id, at, what) values (-1, 'w', now() - interval '8 days', 'join'), (-2, 'w', now() - interval '6 days', 'join');
		insert into sched.operator_action (at, action, object_type, object) values (now() - interval '366 days', 'old', 't', 'o'), (now() - interval '364 days', 'young', 't', 'o')`)
	for range 60 {
		l.turn()
	}
	require.Equal(t, []string{"young"}, l.texts(`select what from sched.decision where subject = 's'`))
	require.Equal(t, []string{"-2"}, l.texts(`select version::text from sched.topology_change where worker_id = 'w'`))
	require.Equal(t, []string{"young"}, l.texts(`select action from sched.operator_action where object = 'o'`))
}
