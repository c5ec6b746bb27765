package jobs_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/jobs"
)

// note is the least of args.
type note struct {
	Text string `json:"text,omitempty"`
}

func (note) Kind() string { return "note" }

// urgentNote has options of its own.
type urgentNote struct{ note }

func (urgentNote) EnqueueOptions() []jobs.Option {
	return []jobs.Option{jobs.Queue("urgent"), jobs.Priority(2)}
}

// unmarshalable can't become JSON.
type unmarshalable struct{}

func (unmarshalable) Kind() string                 { return "unmarshalable" }
func (unmarshalable) MarshalJSON() ([]byte, error) { return nil, errors.New("not today") }

// recordingDB keeps the one statement sent to it, and answers no row.
type recordingDB struct {
	query  string
	values []any
}

func (r *recordingDB) QueryRow(_ context.Context, query string, args ...any) pgx.Row {
	r.query, r.values = query, args
	return r
}

func (r *recordingDB) Scan(...any) error { return pgx.ErrNoRows }

func record(t *testing.T, args jobs.Args, opts ...jobs.Option) *recordingDB {
	t.Helper()
	db := &recordingDB{}
	_, err := jobs.Enqueue(t.Context(), db, args, opts...)
	require.ErrorIs(t, err, pgx.ErrNoRows)
	return db
}

// Defaults are the server's alone: what isn't set isn't sent.
func TestEnqueueSendsOnlyWhatIsSet(t *testing.T) {
	t.Parallel()

	db := record(t, note{Text: "hi"})
	require.Equal(t, "select sched.enqueue(kind => $1::text, args => $2::jsonb)", db.query)
	require.Equal(t, []any{"note", `{"text":"hi"}`}, db.values)

	db = record(t, jobs.Raw("bare", nil), jobs.RunAt(time.Time{}), jobs.Delay(-time.Second), jobs.Headers(nil), nil)
	require.Equal(t, "select sched.enqueue(kind => $1::text)", db.query)

	db = record(t, note{}, jobs.Priority(0), jobs.UniqueKey(""))
	require.Equal(t, "select sched.enqueue(kind => $1::text, args => $2::jsonb, priority => $3::int, unique_key => $4::text)", db.query)
	require.Equal(t, []any{"note", "{}", int32(0), ""}, db.values, "the server judges a zero that was given")
}

func TestOptionsOfTheKindComeFirst(t *testing.T) {
	t.Parallel()

	db := record(t, urgentNote{}, jobs.Priority(4))
	require.Equal(t, []any{"note", "{}", "urgent", int32(4)}, db.values)
}

func TestRunAtAndDelayReplaceEachOther(t *testing.T) {
	t.Parallel()

	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.FixedZone("there", 3600))
	db := record(t, note{}, jobs.Delay(time.Second), jobs.RunAt(at))
	require.Contains(t, db.query, "run_at => $3::timestamptz")
	require.Equal(t, at.UTC(), db.values[2])

	db = record(t, note{}, jobs.RunAt(at), jobs.Delay(1500*time.Millisecond))
	require.Contains(t, db.query, "run_at => clock_timestamp() + $3::interval")
	require.Equal(t, "1500000 microseconds", db.values[2])
}

// A call that can't succeed sends nothing, so that the caller's transaction
// stays usable.
func TestRefusedBeforeSending(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		task jobs.Task
		want string
	}{
		"nil args":            {jobs.Task{}, "args are nil"},
		"args are no JSON":    {jobs.Task{Args: unmarshalable{}}, "not today"},
		"raw args no JSON":    {jobs.Task{Args: jobs.Raw("k", json.RawMessage("{"))}, "args of kind \"k\" are no JSON"},
		"priority overflows":  {jobs.Task{Args: note{}, Options: []jobs.Option{jobs.Priority(math.MaxInt32 + 1)}}, "priority 2147483648"},
		"attempts overflow":   {jobs.Task{Args: note{}, Options: []jobs.Option{jobs.MaxAttempts(math.MinInt32 - 1)}}, "max_attempts -2147483649"},
		"NUL in the kind":     {jobs.Task{Args: jobs.Raw("a\x00b", nil)}, "kind \"a\\x00b\" has a NUL"},
		"NUL in an option":    {jobs.Task{Args: note{}, Options: []jobs.Option{jobs.Queue("a\x00b")}}, "queue \"a\\x00b\" has a NUL"},
		"year out of reach":   {jobs.Task{Args: note{}, Options: []jobs.Option{jobs.RunAt(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))}}, "year 10000"},
		"year before history": {jobs.Task{Args: note{}, Options: []jobs.Option{jobs.RunAt(time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC))}}, "year 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := &recordingDB{}
			_, err := jobs.Enqueue(t.Context(), db, tc.task.Args, tc.task.Options...)
			require.ErrorIs(t, err, jobs.ErrInvalidArgument)
			require.ErrorContains(t, err, tc.want)

			_, err = jobs.EnqueueMany(t.Context(), db, []jobs.Task{{Args: note{}}, tc.task})
			require.ErrorIs(t, err, jobs.ErrInvalidArgument)
			require.ErrorContains(t, err, tc.want)
			require.ErrorContains(t, err, "tasks[1]: ")

			require.Empty(t, db.query, "something was sent")
		})
	}

	db := &recordingDB{}
	err := jobs.Complete(t.Context(), txOf(db), 1, "w.1", func() {})
	require.ErrorIs(t, err, jobs.ErrInvalidArgument)
	require.ErrorContains(t, err, "output of task 1")
	err = jobs.Complete(t.Context(), txOf(db), 1, "w\x00.1", nil)
	require.ErrorIs(t, err, jobs.ErrInvalidArgument)
	require.ErrorContains(t, err, "NUL")
	require.Empty(t, db.query)
}

func TestEnqueueManyOfNothing(t *testing.T) {
	t.Parallel()

	db := &recordingDB{}
	ids, err := jobs.EnqueueMany(t.Context(), db, nil)
	require.NoError(t, err)
	require.Empty(t, ids)
	require.Empty(t, db.query)
}

// fakeTx makes a Tx of any DB.
type fakeTx struct{ jobs.DB }

func (fakeTx) Commit(context.Context) error   { return nil }
func (fakeTx) Rollback(context.Context) error { return nil }

func txOf(db jobs.DB) jobs.Tx { return fakeTx{db} }
