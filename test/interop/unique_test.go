package interop_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/require"
)

// exclusive is a job of which only some fields count for uniqueness.
type exclusive struct {
	Customer string `json:"customer" river:"unique"`
	Trace    string `json:"trace"`
}

func (exclusive) Kind() string { return "exclusive" }

// onceMore inserts and says whether River found the job to be there already.
func (b *bundle) onceMore(t *testing.T, args river.JobArgs, opts river.InsertOpts) (id int64, duplicate bool) {
	t.Helper()
	result, err := b.river.Insert(t.Context(), args, &opts)
	require.NoError(t, err)
	return result.Job.ID, result.UniqueSkippedAsDuplicate
}

func TestUnique_ByArgs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	handle, release := holding(t)
	b.app.on("exclusive", handle)
	opts := river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true}}

	first, duplicate := b.onceMore(t, exclusive{"ann", "1"}, opts)
	require.False(t, duplicate)
	again, duplicate := b.onceMore(t, exclusive{"ann", "2"}, opts)
	require.True(t, duplicate, "only the marked field counts")
	require.Equal(t, first, again)
	b.app.await(t, first, 1)
	_, duplicate = b.onceMore(t, exclusive{"ann", "3"}, opts)
	require.True(t, duplicate, "running counts")
	other, duplicate := b.onceMore(t, exclusive{"bob", "1"}, opts)
	require.False(t, duplicate)

	release()
	b.wait(t, first, "completed")
	b.wait(t, other, "completed")
	_, duplicate = b.onceMore(t, exclusive{"ann", "4"}, opts)
	require.True(t, duplicate, "River's default states hold the key until the completed job is deleted")
	_, err := b.river.JobDelete(t.Context(), first)
	require.NoError(t, err)
	_, duplicate = b.onceMore(t, exclusive{"ann", "5"}, opts)
	require.False(t, duplicate)
}

func TestUnique_ByQueueAndPeriod(t *testing.T) {
	t.Parallel()
	b := setup(t)
	byQueue := river.UniqueOpts{ByQueue: true}

	first, duplicate := b.onceMore(t, job{"a", "by_queue"}, river.InsertOpts{Queue: "one", UniqueOpts: byQueue})
	require.False(t, duplicate)
	_, duplicate = b.onceMore(t, job{"b", "by_queue"}, river.InsertOpts{Queue: "one", UniqueOpts: byQueue})
	require.True(t, duplicate)
	second, duplicate := b.onceMore(t, job{"a", "by_queue"}, river.InsertOpts{Queue: "two", UniqueOpts: byQueue})
	require.False(t, duplicate)

	noon := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	byPeriod := river.UniqueOpts{ByPeriod: time.Hour}
	_, duplicate = b.onceMore(t, job{"a", "by_period"}, river.InsertOpts{ScheduledAt: noon, UniqueOpts: byPeriod})
	require.False(t, duplicate)
	_, duplicate = b.onceMore(t, job{"a", "by_period"}, river.InsertOpts{ScheduledAt: noon.Add(59 * time.Minute), UniqueOpts: byPeriod})
	require.True(t, duplicate)
	_, duplicate = b.onceMore(t, job{"a", "by_period"}, river.InsertOpts{ScheduledAt: noon.Add(time.Hour), UniqueOpts: byPeriod})
	require.False(t, duplicate)

	b.wait(t, first, "completed")
	b.wait(t, second, "completed")
}

// River's two ways to insert many: one skips duplicates, the other, a COPY,
// fails as a whole.
func TestUnique_InsertMany(t *testing.T) {
	t.Parallel()
	b := setup(t)
	opts := &river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true}}
	params := []river.InsertManyParams{
		{Args: exclusive{"ann", ""}, InsertOpts: opts},
		{Args: exclusive{"bob", ""}, InsertOpts: opts},
	}

	count, err := b.river.InsertManyFast(t.Context(), params)
	require.NoError(t, err)
	require.Equal(t, 2, count)
	results, err := b.river.InsertMany(t.Context(), append(params, river.InsertManyParams{Args: exclusive{"eve", ""}, InsertOpts: opts}))
	require.NoError(t, err)
	require.True(t, results[0].UniqueSkippedAsDuplicate)
	require.True(t, results[1].UniqueSkippedAsDuplicate)
	require.False(t, results[2].UniqueSkippedAsDuplicate)
	_, err = b.river.InsertManyFast(t.Context(), params)
	var conflict *pgconn.PgError
	require.ErrorAs(t, err, &conflict)
	require.Equal(t, "23505", conflict.Code)
}

// withoutRetryable are the only unique states that River lets a client choose
// with which a waiting task can lose its key to a newer one.
var withoutRetryable = river.UniqueOpts{ByArgs: true, ByState: []rivertype.JobState{
	rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRunning, rivertype.JobStateScheduled,
}}

func TestUnique_PromoteConflictDiscardsAsRiverDoes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.insert(t, exclusive{"ann", "older"}, &river.InsertOpts{UniqueOpts: withoutRetryable, ScheduledAt: time.Now().Add(time.Hour)})
	// It failed and waits for its retry, which frees the key.
	_, err := b.pool.Exec(t.Context(), `UPDATE sched.river_job SET state = 'retryable', attempt = 1, attempted_at = now() WHERE id = $1`, first.ID)
	require.NoError(t, err)
	handle, release := holding(t)
	b.app.on("exclusive", handle)
	newer, duplicate := b.onceMore(t, exclusive{"ann", "newer"}, river.InsertOpts{UniqueOpts: withoutRetryable})
	require.False(t, duplicate, "retryable isn't among its unique states")
	b.app.await(t, newer, 1)

	_, err = b.pool.Exec(t.Context(), `UPDATE sched.river_job SET scheduled_at = now() WHERE id = $1`, first.ID)
	require.NoError(t, err)
	b.wait(t, first.ID, "discarded")

	got, err := b.river.JobGet(t.Context(), first.ID)
	require.NoError(t, err)
	require.Contains(t, string(got.Metadata), `"unique_key_conflict": "scheduler_discarded"`)
	require.NotNil(t, got.FinalizedAt)
	release()
	b.wait(t, newer, "completed")
	require.Empty(t, b.app.callsOf(first.ID))
}

// A key that SQL gave and one that River's client gave never meet, even for the
// same kind and text.
func TestUnique_KeysOfSQLAndRiverAreApart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	bySQL := b.enqueue(t, `'exclusive', '{"customer": "ann"}', unique_key => 'ann', run_at => now() + interval '1 hour'`)
	byRiver, duplicate := b.onceMore(t, exclusive{"ann", ""}, river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true}})
	require.False(t, duplicate)
	require.NotEqual(t, bySQL, byRiver)
	b.wait(t, byRiver, "completed")

	got, err := b.river.JobGet(t.Context(), bySQL)
	require.NoError(t, err)
	require.Len(t, got.UniqueKey, 32)
	require.ElementsMatch(t, []rivertype.JobState{
		rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRetryable, rivertype.JobStateRunning, rivertype.JobStateScheduled,
	}, got.UniqueStates, "River reads our unique states")
}
