package migrations_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

// job is a row of river_job as far as enqueue decides it.
type job struct {
	Kind        string
	Args        string
	Queue       string
	Priority    int
	MaxAttempts int
	State       string
	Metadata    string
	UniqueKey   []byte
	States      *string
}

func jobOf(t *testing.T, db querier, id int64) job {
	t.Helper()
	rows, err := db.Query(t.Context(), `SELECT kind, args::text, queue, priority, max_attempts, state::text, metadata::text,
		unique_key, unique_states::text FROM sched.river_job WHERE id = $1`, id)
	require.NoError(t, err)
	j, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[job])
	require.NoError(t, err)
	return j
}

func TestEnqueueDefaults(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	conn := connect(t, pool, "")
	exec(t, conn, "SET application_name = 'shop'")
	user := one[string](t, conn, "SELECT session_user::text")
	plain := func(id int64) {
		t.Helper()
		j := jobOf(t, pool, id)
		require.JSONEq(t, fmt.Sprintf(`{"sched:by": {"user": %q, "app": "shop"}}`, user), j.Metadata)
		j.Metadata = ""
		require.Equal(t, job{Kind: "mail", Args: "{}", Queue: "default", Priority: 1, MaxAttempts: 25, State: "available"}, j)
	}
	plain(one[int64](t, conn, "SELECT sched.enqueue('mail')"))
	plain(one[int64](t, conn, `SELECT sched.enqueue('mail', queue => NULL, priority => NULL, run_at => NULL, selector => NULL, protocol => NULL,
		unique_key => NULL, max_attempts => NULL, timeout => NULL, batch => NULL, headers => NULL)`))
	plain(one[int64](t, conn, `SELECT sched.enqueue('mail', selector => '{}', headers => '{}', run_at => '1970-01-01')`))
	plain(one[int64](t, conn, `SELECT sched.enqueue_many('[{"kind": "mail"}]')`))
	plain(one[int64](t, conn, `SELECT sched.enqueue_many('[{"kind": "mail", "queue": null, "priority": null, "run_at": null, "selector": null,
		"protocol": null, "unique_key": null, "max_attempts": null, "timeout": null, "batch": null, "headers": null}]')`))
}

func TestEnqueueKeepsEveryArgument(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool, "SET application_name = ''")
	for _, call := range []string{
		`SELECT sched.enqueue('ns/Mail.Send:v1+x', '[1, "two"]', 'bulk-mail_2', 4, '2100-01-01T00:00:00Z', '{"gpu": "a100", "zone": ""}', 'grpc',
			'order 7', 3, '1500.4 milliseconds', 'night', '{"traceparent": "00-ab", "X-Tenant": "ä b"}')`,
		`SELECT sched.enqueue_many('[{"kind": "ns/Mail.Send:v1+x", "args": [1, "two"], "queue": "bulk-mail_2", "priority": 4,
			"run_at": "2100-01-01T00:00:00Z", "selector": {"gpu": "a100", "zone": ""}, "protocol": "grpc", "unique_key": "order 7",
			"max_attempts": 3, "timeout": "1500.4 milliseconds", "batch": "night", "headers": {"traceparent": "00-ab", "X-Tenant": "ä b"}}]')`,
	} {
		id := one[int64](t, pool, call)
		j := jobOf(t, pool, id)
		var metadata map[string]any
		require.NoError(t, json.Unmarshal([]byte(j.Metadata), &metadata))
		delete(metadata, "sched:by")
		require.Equal(t, map[string]any{
			"sched:selector": map[string]any{"gpu": "a100", "zone": ""}, "sched:protocol": "grpc", "sched:timeout_ms": 1501.0,
			"sched:batch": "night", "sched:headers": map[string]any{"traceparent": "00-ab", "X-Tenant": "ä b"}, "sched:key": "order 7",
		}, metadata)
		key := sha256.Sum256([]byte("sched\x00ns/Mail.Send:v1+x\x00order 7"))
		states := "11110001"
		j.Metadata = ""
		require.Equal(t, job{
			Kind: "ns/Mail.Send:v1+x", Args: `[1, "two"]`, Priority: 4, MaxAttempts: 3, State: "scheduled", UniqueKey: key[:], States: &states,
			Queue: one[string](t, pool, `SELECT sched.queue_name('bulk-mail_2', '{"zone": "", "gpu": "a100"}', 'grpc')`),
		}, j)
		require.Regexp(t, `^bulk-mail_2\|[0-9a-f]{12}$`, j.Queue)
		require.Equal(t, time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), one[time.Time](t, pool, "SELECT scheduled_at FROM sched.river_job WHERE id = $1", id).UTC())
		require.Equal(t, "bulk-mail_2 grpc a100", one[string](t, pool, "SELECT base || ' ' || protocol || ' ' || (selector ->> 'gpu') FROM sched.queue WHERE name = $1", j.Queue))
		require.True(t, one[bool](t, pool, "SELECT EXISTS (SELECT FROM sched.river_queue WHERE name = $1)", j.Queue), "River UI can pause it")
		exec(t, pool, "DELETE FROM sched.river_job")
	}
}

// badArguments are refused by enqueue and by enqueue_many alike; each names the
// argument. An empty many means that JSON has no such value.
var badArguments = []struct{ argument, call, many string }{
	{"kind", "NULL", `"kind": null`},
	{"kind", "''", `"kind": ""`},
	{"kind", "'a b'", `"kind": "a b"`},
	{"kind", "'-a'", `"kind": "-a"`},
	{"kind", "E'a\\n'", `"kind": "a\n"`},
	{"kind", "'ünter'", `"kind": "ünter"`},
	{"kind", "repeat('a', 128)", `"kind": "` + strings.Repeat("a", 128) + `"`},
	{"args", "'a', args => NULL", ""},
	{"queue", "'a', queue => ''", `"kind": "a", "queue": ""`},
	{"queue", "'a', queue => 'A'", `"kind": "a", "queue": "A"`},
	{"queue", "'a', queue => 'a|b'", `"kind": "a", "queue": "a|b"`},
	{"queue", "'a', queue => 'a__b'", `"kind": "a", "queue": "a__b"`},
	{"queue", "'a', queue => '_a'", `"kind": "a", "queue": "_a"`},
	{"queue", "'a', queue => E'a\\n'", `"kind": "a", "queue": "a\n"`},
	{"queue", "'a', queue => repeat('a', 101)", `"kind": "a", "queue": "` + strings.Repeat("a", 101) + `"`},
	{"priority", "'a', priority => 0", `"kind": "a", "priority": 0`},
	{"priority", "'a', priority => 5", `"kind": "a", "priority": 5`},
	{"max_attempts", "'a', max_attempts => 0", `"kind": "a", "max_attempts": 0`},
	{"max_attempts", "'a', max_attempts => 32768", `"kind": "a", "max_attempts": 32768`},
	{"run_at", "'a', run_at => 'infinity'", `"kind": "a", "run_at": "infinity"`},
	{"run_at", "'a', run_at => '-infinity'", `"kind": "a", "run_at": "-infinity"`},
	{"protocol", "'a', protocol => ''", `"kind": "a", "protocol": ""`},
	{"protocol", "'a', protocol => 'HTTP'", `"kind": "a", "protocol": "HTTP"`},
	{"timeout", "'a', timeout => '0'", `"kind": "a", "timeout": "0"`},
	{"timeout", "'a', timeout => '-1 second'", `"kind": "a", "timeout": "-1 second"`},
	{"timeout", "'a', timeout => '7 days 1 microsecond'", `"kind": "a", "timeout": "7 days 1 microsecond"`},
	{"unique_key", "'a', unique_key => ''", `"kind": "a", "unique_key": ""`},
	{"unique_key", "'a', unique_key => repeat('a', 256)", `"kind": "a", "unique_key": "` + strings.Repeat("a", 256) + `"`},
	{"unique_key", "'a', unique_key => E'a\\tb'", `"kind": "a", "unique_key": "a\tb"`},
	{"batch", "'a', batch => ''", `"kind": "a", "batch": ""`},
	{"batch", "'a', batch => repeat('a', 128)", `"kind": "a", "batch": "` + strings.Repeat("a", 128) + `"`},
	{"batch", "'a', batch => E'a\\u0085'", `"kind": "a", "batch": "a\u0085"`},
	{"selector", "'a', selector => '[]'", `"kind": "a", "selector": []`},
	{"selector", "'a', selector => 'null'", ""},
	{"selector", `'a', selector => '{"k": 1}'`, `"kind": "a", "selector": {"k": 1}`},
	{"selector", `'a', selector => '{"k": null}'`, `"kind": "a", "selector": {"k": null}`},
	{"selector", `'a', selector => '{"": "v"}'`, `"kind": "a", "selector": {"": "v"}`},
	{"selector", `'a', selector => '{"k\t": "v"}'`, `"kind": "a", "selector": {"k\t": "v"}`},
	{"selector", `'a', selector => '{"k": "v\n"}'`, `"kind": "a", "selector": {"k": "v\n"}`},
	{"selector", "'a', selector => jsonb_build_object(repeat('k', 64), 'v')", `"kind": "a", "selector": {"` + strings.Repeat("k", 64) + `": "v"}`},
	{"selector", "'a', selector => jsonb_build_object('k', repeat('v', 256))", `"kind": "a", "selector": {"k": "` + strings.Repeat("v", 256) + `"}`},
	{"selector", "'a', selector => (SELECT jsonb_object_agg(i, '') FROM generate_series(1, 65) i)", ""},
	{"headers", "'a', headers => '\"x\"'", `"kind": "a", "headers": "x"`},
	{"headers", `'a', headers => '{"k": true}'`, `"kind": "a", "headers": {"k": true}`},
	{"headers", `'a', headers => '{"a b": "v"}'`, `"kind": "a", "headers": {"a b": "v"}`},
	{"headers", `'a', headers => '{"a:": "v"}'`, `"kind": "a", "headers": {"a:": "v"}`},
	{"headers", `'a', headers => '{"ü": "v"}'`, `"kind": "a", "headers": {"ü": "v"}`},
	{"headers", `'a', headers => '{"k": "v\r\nx"}'`, `"kind": "a", "headers": {"k": "v\r\nx"}`},
	{"headers", "'a', headers => jsonb_build_object('k', repeat('v', 4097))", `"kind": "a", "headers": {"k": "` + strings.Repeat("v", 4097) + `"}`},
	{"headers", "'a', headers => (SELECT jsonb_object_agg(i, '') FROM generate_series(1, 65) i)", ""},
}

func TestBadArguments(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for _, tt := range badArguments {
		err := refused(t, pool, "22023", "SELECT sched.enqueue("+tt.call+")")
		require.Regexp(t, "^sched.enqueue: "+tt.argument+" ", err.Message, tt.call)
		if tt.many == "" {
			continue
		}
		err = refused(t, pool, "22023", "SELECT sched.enqueue_many($1)", `[{"kind": "good"}, {`+tt.many+`}]`)
		require.Regexp(t, `^sched.enqueue_many: tasks\[1\]: `+tt.argument+" ", err.Message, tt.many)
		require.NotEmpty(t, err.Detail)
	}
	require.Zero(t, one[int](t, pool, "SELECT count(*)::int FROM sched.river_job"), "all or nothing")
}

func TestGoodArguments(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for _, call := range []string{
		"repeat('a', 127)", "'_'", "'9'", "'a·b[c]<d>'",
		"'a', 'null'", "'a', '7'", "'a', '\"\"'",
		"'a', queue => repeat('a', 100)", "'a', queue => '0-a_b'",
		"'a', priority => 4, max_attempts => 32767, timeout => '7 days'", "'a', timeout => '1 microsecond'",
		"'a', unique_key => repeat('ü', 255)", "'a', batch => repeat('ü', 127)",
		"'a', selector => jsonb_build_object(repeat('k', 63), repeat('ü', 255))",
		"'a', selector => (SELECT jsonb_object_agg(i, '') FROM generate_series(1, 64) i), queue => repeat('q', 100)",
		"'a', headers => jsonb_build_object(repeat('k', 63), repeat('ü', 4096))",
		"'a', headers => jsonb_build_object('!#$%&''*+-.^_`|~09AZaz', '')",
	} {
		exec(t, pool, "SELECT sched.enqueue("+call+")")
	}
}

func TestArgsLimit(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	// "x…x": the quotes count.
	const sized = "to_jsonb(repeat('x', $1::int - 2))"
	limit := 1 << 20
	for range 2 {
		exec(t, pool, "SELECT sched.enqueue('a', "+sized+")", limit)
		require.Contains(t, refused(t, pool, "54000", "SELECT sched.enqueue('a', "+sized+")", limit+1).Message, strconv.Itoa(limit))
		many := "SELECT sched.enqueue_many(jsonb_build_array('{\"kind\": \"a\"}'::jsonb, jsonb_build_object('kind', 'a', 'args', " + sized + ")))"
		exec(t, pool, many, limit)
		require.Contains(t, refused(t, pool, "54000", many, limit+1).Message, "tasks[1]")
		limit = 8192
		exec(t, pool, "UPDATE sched.setting SET value = to_jsonb($1::int) WHERE key = 'max_args_bytes'", limit)
	}
}

func TestSettingsRefuseWhatEnqueueCouldNotRead(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for key, values := range map[string][]string{
		"notify": {`"yes"`, "1", "null"}, "max_args_bytes": {"0", "-1", "8191", `"1"`, "1e9", "1.5", "null"}, "max_enqueue_many": {"0", "1000001", "true"},
	} {
		for _, value := range values {
			_, err := pool.Exec(t.Context(), "UPDATE sched.setting SET value = $2 WHERE key = $1", key, value)
			require.ErrorContains(t, err, "setting_value_fits", "%s %s", key, value)
		}
	}
	exec(t, pool, "DELETE FROM sched.setting")
	exec(t, pool, "SELECT sched.enqueue('a'), sched.enqueue_many('[{\"kind\": \"a\"}]')")
}

func TestSettingRemembersWhoChangedIt(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool, "UPDATE sched.setting SET updated_by = 'someone', value = 'false' WHERE key = 'notify'")
	require.True(t, one[bool](t, pool, "SELECT updated_by = session_user AND updated_at > now() - interval '1 minute' FROM sched.setting WHERE key = 'notify'"))
}

func TestCommitAndRollbackWithBusinessData(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool, "CREATE TABLE public.orders (id int)")
	for _, isolation := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		for _, commit := range []bool{false, true} {
			exec(t, pool, "TRUNCATE public.orders, sched.river_job")
			tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: isolation})
			require.NoError(t, err)
			exec(t, tx, "INSERT INTO public.orders VALUES (1)")
			exec(t, tx, "SELECT sched.enqueue('ship', unique_key => '1', queue => $1)", "q"+strings.ReplaceAll(string(isolation), " ", ""))
			require.Zero(t, one[int](t, pool, "SELECT count(*)::int FROM sched.task"), "nobody else sees it yet")
			want := 0
			if commit {
				want = 1
				require.NoError(t, tx.Commit(t.Context()))
			} else {
				require.NoError(t, tx.Rollback(t.Context()))
			}
			require.Equal(t, want, one[int](t, pool, "SELECT count(*)::int FROM sched.task"))
			require.Equal(t, want, one[int](t, pool, "SELECT count(*)::int FROM public.orders"))
		}
	}
}

func TestUniqueKeyAgreesUnderConcurrency(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	const callers = 20
	ids := make([]int64, callers)
	errs := make([]error, callers)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range callers {
		conn := connect(t, pool, "")
		wg.Go(func() {
			<-start
			call := "SELECT sched.enqueue('mail', unique_key => 'order 7')"
			if i%2 == 1 {
				call = `SELECT sched.enqueue_many('[{"kind": "mail", "unique_key": "order 7"}]')`
			}
			errs[i] = conn.QueryRow(t.Context(), call).Scan(&ids[i])
		})
	}
	close(start)
	wg.Wait()
	for i := range callers {
		require.NoError(t, errs[i])
		require.Equal(t, ids[0], ids[i])
	}
	require.Equal(t, []int64{ids[0]}, all[int64](t, pool, "SELECT id FROM sched.river_job"))
}

func TestUniqueKeyHoldsWhileUnfinished(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	const call = "SELECT sched.enqueue('mail', unique_key => 'k')"
	id := one[int64](t, pool, call)
	for _, state := range []string{"available", "pending", "retryable", "running", "scheduled"} {
		exec(t, pool, "UPDATE sched.river_job SET state = $1", state)
		require.Equal(t, id, one[int64](t, pool, call), state)
		require.Equal(t, id, one[int64](t, pool, `SELECT sched.enqueue_many('[{"kind": "mail", "unique_key": "k"}]')`), state)
	}
	for _, state := range []string{"cancelled", "completed", "discarded"} {
		exec(t, pool, "UPDATE sched.river_job SET state = $1, finalized_at = now() WHERE finalized_at IS NULL", state)
		next := one[int64](t, pool, call)
		require.Greater(t, next, id, state)
		id = next
	}
	require.NotEqual(t, id, one[int64](t, pool, "SELECT sched.enqueue('other', unique_key => 'k')"), "a key counts within its kind")
}

// An app may hold its task's row for as long as its transaction takes.
func TestEnqueueDoesNotWaitForACompletingApp(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	id := one[int64](t, pool, "SELECT sched.enqueue('mail', unique_key => 'k')")
	exec(t, pool, "UPDATE sched.river_job SET state = 'running', attempted_at = to_timestamp(1), attempted_by = '{w-1}'")
	app := begin(t, connect(t, pool, ""))
	exec(t, app, "SELECT sched.complete($1, 'w-1.1000000')", id)

	other := connect(t, pool, "")
	exec(t, other, "SET lock_timeout = '5s'")
	require.Equal(t, id, one[int64](t, other, "SELECT sched.enqueue('mail', unique_key => 'k')"), "not finished before the commit")
	require.Equal(t, id, one[int64](t, other, `SELECT sched.enqueue_many('[{"kind": "mail", "unique_key": "k"}]')`))
	require.NoError(t, app.Commit(t.Context()))
	require.Greater(t, one[int64](t, other, "SELECT sched.enqueue('mail', unique_key => 'k')"), id)
}

func TestUniqueKeyWaitsForAnotherEnqueueOfIt(t *testing.T) {
	t.Parallel()
	for _, commit := range []bool{true, false} {
		t.Run(fmt.Sprintf("commit %v", commit), func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			first := begin(t, connect(t, pool, ""))
			id := one[int64](t, first, "SELECT sched.enqueue('mail', unique_key => 'k')")
			second := connect(t, pool, "")
			pid := one[int](t, second, "SELECT pg_backend_pid()")
			got := make(chan int64, 1)
			go func() {
				var id int64
				_ = second.QueryRow(context.Background(), "SELECT sched.enqueue('mail', unique_key => 'k')").Scan(&id)
				got <- id
			}()
			require.Eventually(t, func() bool {
				return one[bool](t, pool, "SELECT cardinality(pg_blocking_pids($1)) > 0", pid)
			}, time.Minute, 5*time.Millisecond)
			if commit {
				require.NoError(t, first.Commit(t.Context()))
				require.Equal(t, id, <-got)
				return
			}
			require.NoError(t, first.Rollback(t.Context()))
			require.Greater(t, <-got, id)
		})
	}
}

// Under repeatable read the answer may be newer than the snapshot: Postgres then
// asks for the transaction to be run again.
func TestUniqueKeyUnderRepeatableRead(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	exec(t, tx, "SELECT 1")
	exec(t, pool, "SELECT sched.enqueue('mail', unique_key => 'k', queue => 'fresh')")
	exec(t, tx, "SELECT sched.enqueue('mail', queue => 'fresh')")
	_, err = tx.Exec(t.Context(), "SELECT sched.enqueue('mail', unique_key => 'k')")
	require.ErrorContains(t, err, "40001")
}
