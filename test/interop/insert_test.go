package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/require"
)

func TestInsert(t *testing.T) {
	t.Parallel()
	b := setup(t)

	row := b.insert(t, job{"ann", "greet"}, nil)
	b.wait(t, row.ID, "completed")

	c := b.app.await(t, row.ID, 1)
	require.Equal(t, "greet", c.kind)
	require.JSONEq(t, `{"name": "ann"}`, c.args)
	require.Equal(t, "1", c.header.Get("Sched-Attempt"))
	require.Equal(t, "25", c.header.Get("Sched-Max-Attempts"))
	require.Equal(t, "default", c.header.Get("Sched-Queue"))

	got, err := b.river.JobGet(t.Context(), row.ID)
	require.NoError(t, err)
	require.Equal(t, rivertype.JobStateCompleted, got.State)
	require.Equal(t, 1, got.Attempt)
	require.NotNil(t, got.FinalizedAt)
	require.NotNil(t, got.AttemptedAt)
	require.Len(t, got.AttemptedBy, 1, "by our worker")
	require.JSONEq(t, `{"name": "ann"}`, string(got.Output()), "what the app answered is the job's recorded output")
	require.False(t, scalar[bool](t, b.pool, `SELECT enqueued_by IS NOT NULL FROM sched.task WHERE id = $1`, row.ID))
}

// All the ways in: each of these is another statement in River.
func TestInsertVariants(t *testing.T) {
	t.Parallel()
	b := setup(t)
	many := func(kind string) []river.InsertManyParams {
		params := make([]river.InsertManyParams, 50)
		for i := range params {
			params[i] = river.InsertManyParams{Args: job{Name: "one of many", kind: kind}}
		}
		return params
	}
	inTx := func(run func(tx pgx.Tx) error) error { return pgx.BeginFunc(t.Context(), b.pool, run) }
	variants := map[string]func(ctx context.Context, kind string) error{
		"Insert": func(ctx context.Context, kind string) error {
			_, err := b.river.Insert(ctx, job{"", kind}, nil)
			return err
		},
		"InsertTx": func(ctx context.Context, kind string) error {
			return inTx(func(tx pgx.Tx) error {
				_, err := b.river.InsertTx(ctx, tx, job{"", kind}, nil)
				return err
			})
		},
		"InsertMany": func(ctx context.Context, kind string) error {
			_, err := b.river.InsertMany(ctx, many(kind))
			return err
		},
		"InsertManyTx": func(ctx context.Context, kind string) error {
			return inTx(func(tx pgx.Tx) error {
				_, err := b.river.InsertManyTx(ctx, tx, many(kind))
				return err
			})
		},
		"InsertManyFast": func(ctx context.Context, kind string) error {
			_, err := b.river.InsertManyFast(ctx, many(kind))
			return err
		},
		"InsertManyFastTx": func(ctx context.Context, kind string) error {
			return inTx(func(tx pgx.Tx) error {
				_, err := b.river.InsertManyFastTx(ctx, tx, many(kind))
				return err
			})
		},
	}
	for kind, insert := range variants {
		require.NoError(t, insert(t.Context(), kind), kind)
	}
	for kind := range variants {
		want := 50
		if kind == "Insert" || kind == "InsertTx" {
			want = 1
		}
		eventually(t, func() bool {
			return scalar[int](t, b.pool, `SELECT count(*) FROM sched.task WHERE kind = $1 AND status = 'completed'`, kind) == want
		}, kind)
	}
}

func TestInsertTx_RolledBackNeverRuns(t *testing.T) {
	t.Parallel()
	b := setup(t)
	undo := errors.New("undo")

	var id int64
	err := pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
		result, err := b.river.InsertTx(t.Context(), tx, job{"", "never"}, nil)
		require.NoError(t, err)
		id = result.Job.ID
		return undo
	})
	require.ErrorIs(t, err, undo)

	b.wait(t, b.insert(t, job{"", "after"}, nil).ID, "completed")
	require.Empty(t, b.app.callsOf(id))
	_, err = b.river.JobGet(t.Context(), id)
	require.ErrorIs(t, err, rivertype.ErrNotFound)
}

func TestInsertOptions(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.app.on("fails", answering(500, "no luck"))

	row := b.insert(t, job{"ann", "fails"}, &river.InsertOpts{
		MaxAttempts: 2, Priority: 3, Tags: []string{"customer", "eu-west"},
		Metadata: []byte(`{"tenant": 7, "sched:batch": "march", "sched:timeout_ms": 5000,
			"sched:headers": {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "X-Tenant": "7"}}`),
	})
	b.wait(t, row.ID, "discarded")

	c := b.app.await(t, row.ID, 2)
	require.Equal(t, "2", c.header.Get("Sched-Attempt"))
	require.Equal(t, "2", c.header.Get("Sched-Max-Attempts"))
	require.Equal(t, "march", c.header.Get("Sched-Batch"))
	require.Equal(t, "7", c.header.Get("X-Tenant"))
	require.Equal(t, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", c.header.Get("Traceparent"))
	deadline, err := time.Parse(time.RFC3339, c.header.Get("Sched-Deadline"))
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(5*time.Second), deadline, 5*time.Second)

	got, err := b.river.JobGet(t.Context(), row.ID)
	require.NoError(t, err)
	require.Equal(t, 3, got.Priority)
	require.Equal(t, []string{"customer", "eu-west"}, got.Tags)
	var metadata map[string]any
	require.NoError(t, json.Unmarshal(got.Metadata, &metadata))
	require.InEpsilon(t, 7, metadata["tenant"], 0, "metadata that isn't ours stays")
	require.Len(t, got.Errors, 2, "River reads our errors")
	require.Equal(t, 1, got.Errors[0].Attempt)
	require.Contains(t, got.Errors[1].Error, "no luck")
	require.False(t, got.Errors[1].At.IsZero())

	found, err := b.river.JobList(t.Context(), river.NewJobListParams().TagsAll("customer", "eu-west"))
	require.NoError(t, err)
	require.Len(t, found.Jobs, 1)
	require.Equal(t, []string{"1 retry", "2 discarded"}, b.attempts(t, row.ID))
	require.Equal(t, 1, scalar[int](t, b.pool, `SELECT discarded::int FROM sched.batch WHERE batch = 'march'`))
}

// Options that come with the args (JobArgsWithInsertOpts) and args that aren't a
// plain object of strings.
type invoice struct {
	Lines []struct {
		Cents int `json:"cents"`
	} `json:"lines"`
	Note *string `json:"note"`
}

func (invoice) Kind() string { return "invoice.send" }

func (invoice) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: "billing", MaxAttempts: 3, Priority: 2}
}

func TestInsert_OptionsOfArgs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var args invoice
	require.NoError(t, json.Unmarshal([]byte(`{"lines": [{"cents": 9007199254740993}], "note": null}`), &args))

	row := b.insert(t, args, nil)
	b.wait(t, row.ID, "completed")

	c := b.app.await(t, row.ID, 1)
	require.Contains(t, c.args, "9007199254740993", "numbers keep their digits")
	require.Equal(t, "billing", c.header.Get("Sched-Queue"))
	require.Equal(t, "3", c.header.Get("Sched-Max-Attempts"))
}

// A foreign client may write anything into metadata. The task runs all the same.
func TestInsert_OddMetadata(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, metadata := range []string{
		`{"sched:timeout_ms": "soon"}`,
		`{"sched:timeout_ms": -5}`,
		`{"sched:timeout_ms": 1e300}`,
		`{"sched:timeout_ms": 2.5}`,
		`{"sched:timeout_ms": 9223372036854775807}`,
		`{"sched:headers": ["a"]}`,
		`{"sched:headers": {"X-A": 1, "X-B": "b"}}`,
		`{"sched:headers": {"bad name": "x", "X-C": "line\nbreak"}}`,
		`{"sched:batch": 5}`,
		`{"sched:batch": ""}`,
		`{"sched:lost": "many"}`,
		`{"snoozes": "often", "output": 1}`,
		`{"sched:key": 1, "sched:by": "me"}`,
		`{"sched:protocol": 1}`,
		`{"sched:selector": "gpu"}`,
	} {
		row := b.insert(t, job{"", "odd"}, &river.InsertOpts{Metadata: []byte(metadata)})
		b.wait(t, row.ID, "completed")
		require.Len(t, b.app.callsOf(row.ID), 1, metadata)
		require.Empty(t, scalar[string](t, b.pool, `SELECT coalesce(error, '') FROM sched.task WHERE id = $1`, row.ID), metadata)
	}
}

// attempts is what sched.attempt says of a task, in order.
func (b *bundle) attempts(t *testing.T, id int64) []string {
	t.Helper()
	rows, err := b.pool.Query(t.Context(),
		`SELECT attempt || ' ' || coalesce(outcome, 'running') FROM sched.attempt WHERE task_id = $1 ORDER BY start_time`, id)
	require.NoError(t, err)
	attempts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return attempts
}
