package jobs_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lib/pq" //nolint:depguard // tested: apps may use it
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/jobs"
)

// running enqueues a task and puts it into the state that a claim leaves.
func running(t *testing.T, pool *pgxpool.Pool, at time.Time) (int64, jobs.Lease) {
	t.Helper()
	id, err := jobs.Enqueue(t.Context(), pool, note{})
	require.NoError(t, err)
	lease := jobs.Lease{WorkerID: "w-3f9k2m7q4t1x", AttemptedAt: at}
	tag, err := pool.Exec(t.Context(), `
update sched.river_job set state = 'running', attempt = attempt + 1, attempted_at = $2, attempted_by = array['w-000000000000', $3]
where id = $1 and state = 'available'`, id, at, lease.WorkerID)
	require.NoError(t, err)
	require.EqualValues(t, 1, tag.RowsAffected())
	return id, lease
}

func TestCompleteInTheAppsTransaction(t *testing.T) {
	t.Parallel()

	eachFamily(t, func(t *testing.T, pool *pgxpool.Pool, h handle) {
		_, err := pool.Exec(t.Context(), "create table public.effect (n int)")
		require.NoError(t, err)
		id, lease := running(t, pool, time.Now())
		const effects = "select count(*) from public.effect"
		status := func() string { return taskOf(t, pool, id).Status }

		tx := h.begin(t)
		tx.exec(t, "insert into public.effect values (1)")
		require.NoError(t, jobs.Complete(t.Context(), tx, id, lease.String(), nil))
		require.NoError(t, tx.Rollback(t.Context()))
		require.Equal(t, "running", status())

		tx = h.begin(t)
		tx.exec(t, "insert into public.effect values (2)")
		require.NoError(t, jobs.Complete(t.Context(), tx, id, lease.String(), map[string]any{"sent": 3}))
		require.Equal(t, "running", status(), "visible before the commit")
		require.NoError(t, tx.Commit(t.Context()))
		require.Equal(t, "completed", status())
		require.Equal(t, 1, one[int](t, pool, effects))
		require.JSONEq(t, `{"sent": 3}`, one[string](t, pool, "select output::text from sched.task where id = $1", id))

		// The same delivery once more: its effect must not happen again.
		tx = h.begin(t)
		tx.exec(t, "insert into public.effect values (3)")
		require.ErrorIs(t, jobs.Complete(t.Context(), tx, id, lease.String(), nil), jobs.ErrLeaseLost)
		require.NoError(t, tx.Rollback(t.Context()))
		require.Equal(t, 1, one[int](t, pool, effects))
	})
}

// The server rebuilds the claim's time from the lease to the microsecond: the
// lease of another microsecond owns nothing.
func TestLeaseNamesOneMicrosecond(t *testing.T) {
	t.Parallel()

	pool := pgtest.New(t)
	times := []time.Time{
		time.UnixMicro(1), time.UnixMicro(999_999), time.UnixMicro(1_000_000),
		time.Date(2038, 1, 19, 3, 14, 8, 1000, time.UTC),
		time.Date(4999, 12, 31, 23, 59, 59, 999_999_000, time.UTC),
	}
	for range 50 {
		times = append(times, time.UnixMicro(1_700_000_000_000_000+rand.Int64N(1_000_000_000_000_000)))
	}
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	for _, at := range times {
		id, lease := running(t, pool, at)
		for _, off := range []time.Duration{-time.Microsecond, time.Microsecond} {
			other := jobs.Lease{WorkerID: lease.WorkerID, AttemptedAt: at.Add(off)}
			if other.AttemptedAt.UnixMicro() <= 0 {
				continue
			}
			nested, err := tx.Begin(t.Context())
			require.NoError(t, err)
			require.ErrorIs(t, jobs.Complete(t.Context(), nested, id, other.String(), nil), jobs.ErrLeaseLost, "%s", at)
			require.NoError(t, nested.Rollback(t.Context()))
		}
		require.NoError(t, jobs.Complete(t.Context(), tx, id, lease.String(), nil), "%s", at)
	}
}

func TestCompleteOutputs(t *testing.T) {
	t.Parallel()

	pool := pgtest.New(t)
	for name, tc := range map[string]struct {
		output any
		want   string
	}{
		"struct": {note{Text: "done"}, `{"text": "done"}`},
		"raw":    {json.RawMessage(`[1, 2]`), `[1, 2]`},
		"text":   {"done", `"done"`},
		"number": {7, `7`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id, lease := running(t, pool, time.Now())
			tx, err := pool.Begin(t.Context())
			require.NoError(t, err)
			defer func() { _ = tx.Rollback(context.Background()) }()
			require.NoError(t, jobs.Complete(t.Context(), tx, id, lease.String(), tc.output))
			require.NoError(t, tx.Commit(t.Context()))
			require.JSONEq(t, tc.want, one[string](t, pool, "select output::text from sched.task where id = $1", id))
		})
	}
}

func TestCancelAndRetry(t *testing.T) {
	t.Parallel()

	eachFamily(t, func(t *testing.T, pool *pgxpool.Pool, h handle) {
		waiting, err := jobs.Enqueue(t.Context(), h.db, note{}, jobs.Delay(time.Hour))
		require.NoError(t, err)
		for range 2 { // the second time reports what is so already
			status, err := jobs.Cancel(t.Context(), h.db, waiting)
			require.NoError(t, err)
			require.Equal(t, jobs.StatusCancelled, status)
		}
		status, err := jobs.Retry(t.Context(), h.db, waiting)
		require.NoError(t, err)
		require.Equal(t, jobs.StatusAvailable, status)
		require.Equal(t, "available", taskOf(t, pool, waiting).Status)

		busy, _ := running(t, pool, time.Now())
		status, err = jobs.Cancel(t.Context(), h.db, busy)
		require.NoError(t, err)
		require.Equal(t, jobs.StatusRunning, status, "a running task is asked, not cut off")

		tx := h.begin(t)
		_, err = jobs.Cancel(t.Context(), tx, waiting)
		require.NoError(t, err)
		require.NoError(t, tx.Rollback(t.Context()))
		require.Equal(t, "available", taskOf(t, pool, waiting).Status, "a cancel rolls back like all else")
	})
}

// The whole API needs the producer role and no more: no table, no view.
func TestProducerRoleSuffices(t *testing.T) {
	t.Parallel()

	pool := pgtest.New(t)
	id, lease := running(t, pool, time.Now())
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), "set local role sched_producer")
	require.NoError(t, err)

	waiting, err := jobs.EnqueueTx(t.Context(), tx, note{}, jobs.Queue("fresh"), jobs.Delay(time.Hour), jobs.UniqueKey("k"))
	require.NoError(t, err)
	_, err = jobs.EnqueueManyTx(t.Context(), tx, []jobs.Task{
		{Args: note{}}, {Args: note{}, Options: []jobs.Option{jobs.Delay(time.Hour)}},
	})
	require.NoError(t, err)
	_, err = jobs.Cancel(t.Context(), tx, waiting)
	require.NoError(t, err)
	_, err = jobs.Retry(t.Context(), tx, waiting)
	require.NoError(t, err)
	require.NoError(t, jobs.Complete(t.Context(), tx, id, lease.String(), nil))

	_, err = tx.Exec(t.Context(), "select from sched.river_job")
	require.ErrorContains(t, err, "permission denied")
}

func TestUnpreparedDatabase(t *testing.T) {
	t.Parallel()

	_, err := jobs.Enqueue(t.Context(), pgtest.Empty(t), note{})
	require.ErrorContains(t, err, "hint: run 'sched migrate up' on this database")
}

// Every sentinel, as the server raises it, through every driver.
func TestSentinels(t *testing.T) {
	t.Parallel()

	const unknown = 1 << 40
	eachFamily(t, func(t *testing.T, pool *pgxpool.Pool, h handle) {
		_, err := pool.Exec(t.Context(), "update sched.setting set value = case key when 'max_args_bytes' then '8192'::jsonb else '2' end where key in ('max_args_bytes', 'max_enqueue_many')")
		require.NoError(t, err)

		enqueue := func(args jobs.Args, opts ...jobs.Option) func() error {
			return func() error {
				_, err := jobs.Enqueue(t.Context(), h.db, args, opts...)
				return err
			}
		}
		many := func(n int, args jobs.Args) func() error {
			return func() error {
				tasks := make([]jobs.Task, n)
				for i := range tasks {
					tasks[i].Args = args
				}
				_, err := jobs.EnqueueMany(t.Context(), h.db, tasks)
				return err
			}
		}
		control := func(call func(context.Context, jobs.DB, int64) (jobs.Status, error), id int64) func() error {
			return func() error {
				_, err := call(t.Context(), h.db, id)
				return err
			}
		}
		complete := func(id int64, lease string, output any) func() error {
			return func() error {
				tx := h.begin(t)
				defer func() { _ = tx.Rollback(context.Background()) }()
				return jobs.Complete(t.Context(), tx, id, lease, output)
			}
		}
		busy, lease := running(t, pool, time.Now())
		ended, err := jobs.Enqueue(t.Context(), h.db, note{}, jobs.UniqueKey("taken"))
		require.NoError(t, err)
		_, err = jobs.Cancel(t.Context(), h.db, ended)
		require.NoError(t, err)
		require.NoError(t, enqueue(note{}, jobs.UniqueKey("taken"))())
		big := note{Text: strings.Repeat("x", 8192)}
		other := jobs.Lease{WorkerID: "w-zzzzzzzzzzzz", AttemptedAt: lease.AttemptedAt}

		for name, tc := range map[string]struct {
			call func() error
			want error
		}{
			"kind":                 {enqueue(jobs.Raw("no spaces", nil)), jobs.ErrInvalidArgument},
			"queue":                {enqueue(note{}, jobs.Queue("No!")), jobs.ErrInvalidArgument},
			"priority":             {enqueue(note{}, jobs.Priority(9)), jobs.ErrInvalidArgument},
			"max attempts":         {enqueue(note{}, jobs.MaxAttempts(0)), jobs.ErrInvalidArgument},
			"max attempts, 16 bit": {enqueue(note{}, jobs.MaxAttempts(40_000)), jobs.ErrInvalidArgument},
			"protocol":             {enqueue(note{}, jobs.Protocol("smtp")), jobs.ErrInvalidArgument},
			"timeout":              {enqueue(note{}, jobs.Timeout(-time.Second)), jobs.ErrInvalidArgument},
			"NUL in args":          {enqueue(note{Text: "\x00"}), jobs.ErrInvalidArgument},
			"lease":                {complete(busy, "nonsense", nil), jobs.ErrInvalidArgument},
			"large args":           {enqueue(big), jobs.ErrTooLarge},
			"large output":         {complete(busy, lease.String(), big), jobs.ErrTooLarge},
			"large args of many":   {many(1, big), jobs.ErrTooLarge},
			"too many":             {many(3, note{}), jobs.ErrTooLarge},
			"complete of nothing":  {complete(unknown, lease.String(), nil), jobs.ErrTaskNotFound},
			"cancel of nothing":    {control(jobs.Cancel, unknown), jobs.ErrTaskNotFound},
			"retry of nothing":     {control(jobs.Retry, unknown), jobs.ErrTaskNotFound},
			"another's lease":      {complete(busy, other.String(), nil), jobs.ErrLeaseLost},
			"retry while running":  {control(jobs.Retry, busy), jobs.ErrTaskRunning},
			"retry of taken key":   {control(jobs.Retry, ended), jobs.ErrUniqueConflict},
		} {
			err := tc.call()
			require.ErrorIs(t, err, tc.want, name)
			require.ErrorContains(t, err, "sched.", name)
			require.ErrorContains(t, err, "SQLSTATE", name)
			if !strings.HasPrefix(name, "NUL") { // Postgres's own error has no hint
				require.ErrorContains(t, err, "hint: ", name)
			}
			var pgxErr *pgconn.PgError
			var pqErr *pq.Error
			if !strings.HasSuffix(t.Name(), "pq") {
				require.ErrorAs(t, err, &pgxErr, name)
			} else {
				require.ErrorAs(t, err, &pqErr, name)
			}
		}
	})
}
