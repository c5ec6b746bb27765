package interop_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/require"
)

func TestJobList(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.app.on("fails", answering(422, "no such customer"))
	done := b.enqueue(t, `'greet', '{"name": "ann"}', queue => 'lists', priority => 2, batch => 'march', unique_key => 'ann', headers => '{"a": "b"}'`)
	b.wait(t, done, "completed")
	cancelled := b.enqueue(t, `'fails', queue => 'lists'`)
	later := b.enqueue(t, `'greet', queue => 'lists', run_at => now() + interval '1 hour'`)
	b.wait(t, cancelled, "cancelled")

	list := func(params *river.JobListParams) (ids []int64) {
		result, err := b.river.JobList(t.Context(), params.Queues("lists"))
		require.NoError(t, err)
		for _, row := range result.Jobs {
			ids = append(ids, row.ID)
		}
		return ids
	}
	all := river.NewJobListParams()
	require.Equal(t, []int64{done, cancelled, later}, list(all))
	require.Equal(t, []int64{done}, list(all.States(rivertype.JobStateCompleted)))
	require.Equal(t, []int64{later}, list(all.States(rivertype.JobStateScheduled).Kinds("greet")))
	require.Equal(t, []int64{done}, list(all.Priorities(2)))
	require.Equal(t, []int64{done}, list(all.Metadata(`{"sched:batch": "march"}`)), "what SQL gave is in the metadata")
	require.Equal(t, []int64{cancelled, done}, list(all.States(rivertype.JobStateCompleted, rivertype.JobStateCancelled).OrderBy(river.JobListOrderByTime, river.SortOrderDesc)))
	require.Equal(t, []int64{cancelled, later}, list(all.After(river.JobListCursorFromJob(b.get(t, done)))))

	got := b.get(t, cancelled)
	require.Equal(t, rivertype.JobStateCancelled, got.State)
	require.Len(t, got.Errors, 1)
	require.Contains(t, got.Errors[0].Error, "no such customer")
}

func (b *bundle) get(t *testing.T, id int64) *rivertype.JobRow {
	t.Helper()
	row, err := b.river.JobGet(t.Context(), id)
	require.NoError(t, err)
	return row
}

func TestJobCancel_Waiting(t *testing.T) {
	t.Parallel()
	b := setup(t)
	undo := errors.New("undo")
	later := `'greet', run_at => now() + interval '1 hour'`
	alone, inTx, kept := b.enqueue(t, later), b.enqueue(t, later), b.enqueue(t, later)

	row, err := b.river.JobCancel(t.Context(), alone)
	require.NoError(t, err)
	require.Equal(t, rivertype.JobStateCancelled, row.State)
	require.NoError(t, pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
		_, err := b.river.JobCancelTx(t.Context(), tx, inTx)
		return err
	}))
	require.ErrorIs(t, pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
		_, err := b.river.JobCancelTx(t.Context(), tx, kept)
		require.NoError(t, err)
		return undo
	}), undo)

	require.Equal(t, "cancelled", b.status(t, alone))
	require.Equal(t, "cancelled", b.status(t, inTx))
	require.Equal(t, "scheduled", b.status(t, kept))
	require.Equal(t, "cancelled", scalar[string](t, b.pool, `SELECT sched.cancel($1)`, alone), "and SQL sees it so")
}

func TestJobCancel_Running(t *testing.T) {
	t.Parallel()
	b := setup(t)
	handle, _ := holding(t)
	b.app.on("long", handle)
	alone, inTx := b.enqueue(t, `'long'`), b.enqueue(t, `'long'`)
	first, second := b.app.await(t, alone, 1), b.app.await(t, inTx, 1)

	row, err := b.river.JobCancel(t.Context(), alone)
	require.NoError(t, err)
	require.Equal(t, rivertype.JobStateRunning, row.State, "asked; the sidecar ends it")
	require.NoError(t, pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
		_, err := b.river.JobCancelTx(t.Context(), tx, inTx)
		return err
	}))

	b.wait(t, alone, "cancelled")
	b.wait(t, inTx, "cancelled")
	for _, c := range []*call{first, second} {
		select { // its server notices a moment after the sidecar hung up
		case <-c.ctx.Done():
		case <-t.Context().Done():
		case <-time.After(patience):
			require.FailNow(t, "the sidecar should have hung up")
		}
	}
	require.Equal(t, []string{"1 cancelled"}, b.attempts(t, alone))
}

func TestJobCancel_WhileItFails(t *testing.T) {
	t.Parallel()
	b := setup(t)
	// Every attempt fails: a cancel that comes too late for the attempt still
	// keeps the next one from running.
	b.app.on("fails", answering(500, "no luck"))
	id := b.enqueue(t, `'fails', max_attempts => 1000`)
	b.app.await(t, id, 2)
	_, err := b.river.JobCancel(t.Context(), id)
	require.NoError(t, err)
	b.wait(t, id, "cancelled")
}

func TestJobRetry(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.app.on("picky", func(c *call) reply {
		if len(b.app.callsOf(c.id)) < 2 {
			return reply{400, "not yet"}
		}
		return reply{200, c.args}
	})
	b.app.on("unlucky", answering(500, "no luck"))
	cancelled := b.enqueue(t, `'picky'`)
	discarded := b.enqueue(t, `'unlucky', max_attempts => 1`)
	later := b.enqueue(t, `'greet', run_at => now() + interval '1 hour'`)
	completed := b.enqueue(t, `'greet'`)
	b.wait(t, cancelled, "cancelled")
	b.wait(t, discarded, "discarded")
	b.wait(t, completed, "completed")
	b.app.on("unlucky", answering(200, ""))

	for _, id := range []int64{cancelled, discarded, later, completed} {
		row, err := b.river.JobRetry(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, rivertype.JobStateAvailable, row.State)
		b.wait(t, id, "completed")
	}
	require.Equal(t, 2, b.get(t, discarded).MaxAttempts, "one more, since all were spent")
	require.Len(t, b.app.callsOf(completed), 2)
	require.Equal(t, "2", b.app.callsOf(completed)[1].header.Get("Sched-Attempt"))
}

func TestJobRetry_RunningIsLeftAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	handle, release := holding(t)
	b.app.on("long", handle)
	id := b.enqueue(t, `'long'`)
	b.app.await(t, id, 1)

	row, err := b.river.JobRetry(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, rivertype.JobStateRunning, row.State)
	_, err = b.river.JobDelete(t.Context(), id)
	require.ErrorIs(t, err, rivertype.ErrJobRunning)

	release()
	b.wait(t, id, "completed")
	require.Len(t, b.app.callsOf(id), 1)
}

func TestJobDelete(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.app.on("fails", answering(500, "no luck"))
	done, retried := b.enqueue(t, `'greet'`), b.enqueue(t, `'fails', max_attempts => 3`)
	later := b.enqueue(t, `'greet', run_at => now() + interval '1 hour'`)
	b.wait(t, done, "completed")
	b.wait(t, retried, "discarded")

	for _, id := range []int64{done, retried} {
		row, err := b.river.JobDelete(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, id, row.ID)
	}
	result, err := b.river.JobDeleteMany(t.Context(), river.NewJobDeleteManyParams().IDs(later))
	require.NoError(t, err)
	require.Len(t, result.Jobs, 1)

	require.Zero(t, scalar[int](t, b.pool, `SELECT count(*) FROM sched.task WHERE id = any($1)`, []int64{done, retried, later}))
	require.Equal(t, []string{"1 retry", "2 retry"}, b.attempts(t, retried), "what was logged before stays for a while")
	_, err = b.pool.Exec(t.Context(), `SELECT sched.cancel($1)`, done)
	require.ErrorContains(t, err, "there is no task")
}

// The recorded output of River is the output of sched, in both directions.
func TestJobUpdate_Output(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.enqueue(t, `'greet', '{"name": "ann"}'`)
	b.wait(t, id, "completed")
	require.JSONEq(t, `{"name": "ann"}`, string(b.get(t, id).Output()))
	require.Contains(t, string(b.get(t, id).Metadata), rivertype.MetadataKeyOutput)

	_, err := b.river.JobUpdate(t.Context(), id, &river.JobUpdateParams{Output: map[string]int{"rows": 7}})
	require.NoError(t, err)
	require.JSONEq(t, `{"rows": 7}`, scalar[string](t, b.pool, `SELECT output::text FROM sched.task WHERE id = $1`, id))

	handle, release := holding(t)
	b.app.on("long", handle)
	running := b.enqueue(t, `'long'`)
	b.app.await(t, running, 1)
	require.NoError(t, pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
		_, err := b.river.JobUpdateTx(t.Context(), tx, running, &river.JobUpdateParams{Output: "half way"})
		return err
	}))
	require.Equal(t, `"half way"`, scalar[string](t, b.pool, `SELECT output::text FROM sched.task WHERE id = $1`, running))
	release()
	b.wait(t, running, "completed")
}
