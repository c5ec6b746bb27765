package operator

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// outcomes are what a change came to, by task.
type outcomes map[int64]Outcome

func (o outcomes) add(c Change) { o[c.ID] = c.Outcome }

func status(t *testing.T, pool *pgxpool.Pool, id int64) string {
	t.Helper()

	return one[string](t, pool, "SELECT status::text FROM sched.task WHERE id = $1", id)
}

func TestMatch(t *testing.T) {
	t.Parallel()
	o, pool := setup(t)
	mail := enqueue(t, pool, `'mail', queue => 'bulk', selector => '{"gpu": "a"}'`)
	end(t, pool, mail, "discarded", 30)
	image := enqueue(t, pool, `'image'`)
	end(t, pool, image, "discarded", 90)
	waiting := enqueue(t, pool, `'image'`)
	runs := enqueue(t, pool, `'image', batch => 'night'`)
	end(t, pool, runs, "running", 1)

	for _, tt := range []struct {
		name   string
		action Action
		filter Filter
		want   []int64
	}{
		{"retry means the discarded", Retry, Filter{}, []int64{mail, image}},
		{"kind", Retry, Filter{Kinds: []string{"image"}}, []int64{image}},
		{"since", Retry, Filter{Since: time.Now().Add(-time.Hour)}, []int64{mail}},
		{"until", Retry, Filter{Until: time.Now().Add(-time.Hour)}, []int64{image}},
		{"queue and derived", Retry, Filter{Queues: []string{"bulk"}}, []int64{mail}},
		{"worker", Retry, Filter{Worker: "w-one", Statuses: []string{"completed", "discarded"}}, []int64{mail, image}},
		{"cancel means the unfinished", Cancel, Filter{}, []int64{waiting, runs}},
		{"batch", Cancel, Filter{Batch: "night"}, []int64{runs}},
	} {
		match, err := o.Match(t.Context(), tt.action, tt.filter, MaxMatch)
		require.NoError(t, err, tt.name)
		require.Equal(t, tt.want, match.IDs, tt.name)
		require.False(t, match.More, tt.name)
	}
	match, err := o.Match(t.Context(), Retry, Filter{}, 1)
	require.NoError(t, err)
	require.Equal(t, Match{IDs: []int64{mail}, Groups: []Group{{Kind: "mail", Status: "discarded", Count: 1}}, More: true}, match)

	_, err = o.Match(t.Context(), Retry, Filter{Statuses: []string{"running"}}, 1)
	require.ErrorIs(t, err, ErrInvalid)
	require.ErrorContains(t, err, "retry applies to ")
	_, err = o.Match(t.Context(), Cancel, Filter{Statuses: []string{"completed"}}, 1)
	require.ErrorIs(t, err, ErrInvalid)
}

// More than a batch of them, of which some can't be retried: the others are.
func TestRetryMatched(t *testing.T) {
	t.Parallel()
	o, pool := setup(t)
	exec(t, pool, `SELECT sched.enqueue_many(jsonb_agg('{"kind": "mail"}'::jsonb)) FROM generate_series(1, 120)`)
	exec(t, pool, `UPDATE sched.river_job SET state = 'discarded', finalized_at = now(), attempt = max_attempts`)
	first := one[int64](t, pool, "SELECT min(id) FROM sched.river_job")

	keyed := enqueue(t, pool, `'mail', unique_key => 'k'`)
	end(t, pool, keyed, "discarded", 1)
	holder := enqueue(t, pool, `'mail', unique_key => 'k'`)

	match, err := o.Match(t.Context(), Retry, Filter{Kinds: []string{"mail"}}, MaxMatch)
	require.NoError(t, err)
	require.Len(t, match.IDs, 121)

	// Between the count and the change one runs again and completes, and an app
	// holds another's row.
	exec(t, pool, "UPDATE sched.river_job SET state = 'completed' WHERE id = $1", first)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT 1 FROM sched.river_job WHERE id = $1 FOR UPDATE", first+1)
	require.NoError(t, err)

	got := outcomes{}
	require.NoError(t, o.ChangeMatched(t.Context(), Retry, Filter{Kinds: []string{"mail"}}, match.IDs, got.add))
	require.NoError(t, tx.Rollback(t.Context()))
	require.Len(t, got, 121)
	require.Equal(t, Skipped, got[first], "no longer discarded")
	require.Equal(t, Skipped, got[first+1], "held")
	require.Equal(t, Conflict, got[keyed])
	require.Equal(t, Done, got[first+2])
	require.Equal(t, "completed", status(t, pool, first))
	require.Equal(t, "discarded", status(t, pool, first+1))
	require.Equal(t, "discarded", status(t, pool, keyed))
	require.Equal(t, "available", status(t, pool, holder))
	require.Equal(t, 118+1, one[int](t, pool, "SELECT count(*)::int FROM sched.task WHERE status = 'available'"))
	require.Equal(t, 26, one[int](t, pool, "SELECT max_attempts FROM sched.task WHERE id = $1", first+2), "one attempt more")

	again := outcomes{}
	require.NoError(t, o.ChangeMatched(t.Context(), Retry, Filter{}, []int64{first + 1, first + 2}, again.add))
	require.Equal(t, outcomes{first + 1: Done, first + 2: Skipped}, again)
}

// A retry that would wait for an enqueue with the same key, in an open transaction,
// is given up.
func TestRetryMatchedWaitsForNobody(t *testing.T) {
	t.Parallel()
	o, pool := setup(t)
	id := enqueue(t, pool, `'mail', unique_key => 'k'`)
	end(t, pool, id, "discarded", 1)
	other := enqueue(t, pool, `'mail'`)
	end(t, pool, other, "discarded", 1)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT sched.enqueue('mail', unique_key => 'k')")
	require.NoError(t, err)

	var changes []Change
	require.NoError(t, o.ChangeMatched(t.Context(), Retry, Filter{}, []int64{id, other}, func(c Change) { changes = append(changes, c) }))
	require.NoError(t, tx.Rollback(t.Context()))
	require.Equal(t, []Outcome{Refused, Done}, []Outcome{changes[0].Outcome, changes[1].Outcome})
	require.ErrorContains(t, changes[0].Err, "lock timeout")
}

// What was reported before it was stopped is done, and nothing else.
func TestChangeMatchedStopped(t *testing.T) {
	t.Parallel()
	o, pool := setup(t)
	exec(t, pool, `SELECT sched.enqueue_many(jsonb_agg('{"kind": "mail"}'::jsonb)) FROM generate_series(1, $1::int)`, 3*changeBatch)
	match, err := o.Match(t.Context(), Cancel, Filter{Kinds: []string{"mail"}}, MaxMatch)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	got := outcomes{}
	err = o.ChangeMatched(ctx, Cancel, Filter{}, match.IDs, func(c Change) {
		got.add(c)
		if len(got) == changeBatch+1 {
			cancel()
		}
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, got, 2*changeBatch)
	require.Equal(t, 2*changeBatch, one[int](t, pool, "SELECT count(*)::int FROM sched.task WHERE status = 'cancelled'"))
}

func TestCancelMatched(t *testing.T) {
	t.Parallel()
	o, pool := setup(t)
	waits := enqueue(t, pool, `'mail'`)
	runs := enqueue(t, pool, `'mail'`)
	end(t, pool, runs, "running", 1)
	done := enqueue(t, pool, `'mail'`)
	end(t, pool, done, "completed", 1)

	got := outcomes{}
	require.NoError(t, o.ChangeMatched(t.Context(), Cancel, Filter{Kinds: []string{"mail"}}, []int64{waits, runs, done}, got.add))
	require.Equal(t, outcomes{waits: Done, runs: Asked, done: Skipped}, got)
	require.Equal(t, "cancelled", status(t, pool, waits))
	require.Equal(t, "running", status(t, pool, runs))
	require.True(t, one[bool](t, pool, "SELECT metadata ? 'cancel_attempted_at' FROM sched.river_job WHERE id = $1", runs))
}

func TestChangeEach(t *testing.T) {
	t.Parallel()
	o, pool := setup(t)
	waits := enqueue(t, pool, `'mail'`)
	runs := enqueue(t, pool, `'mail'`)
	end(t, pool, runs, "running", 1)
	done := enqueue(t, pool, `'mail', unique_key => 'k'`)
	end(t, pool, done, "completed", 1)
	enqueue(t, pool, `'mail', unique_key => 'k'`)
	all := []int64{waits, runs, done, 999}

	retried := outcomes{}
	require.NoError(t, o.ChangeEach(t.Context(), Retry, all, retried.add))
	require.Equal(t, outcomes{waits: Done, runs: Running, done: Conflict, 999: Missing}, retried)

	cancelled := outcomes{}
	require.NoError(t, o.ChangeEach(t.Context(), Cancel, all, cancelled.add))
	require.Equal(t, outcomes{waits: Done, runs: Asked, done: Unchanged, 999: Missing}, cancelled)
	for _, outcome := range []Outcome{Running, Conflict, Missing, Refused} {
		require.True(t, outcome.Failed())
	}
	for _, outcome := range []Outcome{Done, Asked, Unchanged, Skipped} {
		require.False(t, outcome.Failed())
	}
}

// A producer may cancel and retry by id, with no right to any table.
func TestChangeEachAsProducer(t *testing.T) {
	t.Parallel()
	_, pool := setup(t)
	id := enqueue(t, pool, `'mail'`)
	o := connect(t, pool, "sched_producer")
	got := outcomes{}
	require.NoError(t, o.ChangeEach(t.Context(), Cancel, []int64{id}, got.add))
	require.Equal(t, outcomes{id: Done}, got)
	_, err := o.Match(t.Context(), Cancel, Filter{}, 1)
	require.ErrorContains(t, err, "hint: log in as a member of ")
}

func TestActionsStatusesAreStatuses(t *testing.T) {
	t.Parallel()
	for _, action := range []Action{Retry, Cancel} {
		for _, s := range slices.Concat(action.Statuses(), action.DefaultStatuses()) {
			require.Contains(t, Statuses(), s)
		}
	}
}
