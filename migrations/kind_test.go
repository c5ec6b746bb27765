package migrations_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

// preset is what a task of a kind comes to, as far as the kind decides it.
type preset struct {
	Queue, Selector, Protocol string
	Priority, MaxAttempts     int
	Timeout                   string
}

func presetOf(t *testing.T, db querier, id int64) preset {
	t.Helper()
	rows, err := db.Query(t.Context(), `SELECT split_part(queue, '|', 1), selector::text, protocol, priority, max_attempts, coalesce(timeout::text, '')
		FROM sched.task WHERE id = $1`, id)
	require.NoError(t, err)
	p, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[preset])
	require.NoError(t, err)
	return p
}

// enqueueBoth enqueues by both functions what args (after the kind) and keys (of
// the object) say alike, and returns what it comes to.
func enqueueBoth(t *testing.T, db querier, args, keys string) preset {
	t.Helper()
	single := presetOf(t, db, one[int64](t, db, "SELECT sched.enqueue('mail'"+args+")"))
	many := presetOf(t, db, one[int64](t, db, `SELECT sched.enqueue_many('[{"kind": "mail"`+keys+`}]')`))
	require.Equal(t, single, many, "enqueue and enqueue_many differ")
	return single
}

func TestKindDefaults(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	global := preset{"default", "{}", "any", 1, 25, ""}
	require.Equal(t, global, enqueueBoth(t, pool, "", ""))

	exec(t, pool, "INSERT INTO sched.kind (kind) VALUES ('mail')")
	require.Equal(t, global, enqueueBoth(t, pool, "", ""), "nothing is set")

	exec(t, pool, `UPDATE sched.kind SET queue = 'bulk', selector = '{"gpu": "a"}', protocol = 'grpc', priority = 3, timeout = '90 s', max_attempts = 5`)
	kinds := preset{"bulk", `{"gpu": "a"}`, "grpc", 3, 5, "00:01:30"}
	require.Equal(t, kinds, enqueueBoth(t, pool, "", ""), "a change is live")
	require.Equal(t, kinds, enqueueBoth(t, pool,
		", queue => NULL, selector => NULL, protocol => NULL, priority => NULL, timeout => NULL, max_attempts => NULL",
		`, "queue": null, "selector": null, "protocol": null, "priority": null, "timeout": null, "max_attempts": null`), "NULL is left out")

	require.Equal(t, preset{"own", "{}", "any", 1, 25, "00:00:01"}, enqueueBoth(t, pool,
		", queue => 'own', selector => '{}', protocol => 'any', priority => 1, timeout => '1 s', max_attempts => 25",
		`, "queue": "own", "selector": {}, "protocol": "any", "priority": 1, "timeout": "1 s", "max_attempts": 25`), "an argument wins")
	require.Equal(t, preset{"own", `{"gpu": "a"}`, "grpc", 3, 5, "00:01:30"}, enqueueBoth(t, pool, ", queue => 'own'", `, "queue": "own"`), "one by one")

	exec(t, pool, "UPDATE sched.kind SET queue = NULL, protocol = NULL, priority = NULL")
	require.Equal(t, preset{"default", `{"gpu": "a"}`, "any", 1, 5, "00:01:30"}, enqueueBoth(t, pool, "", ""), "what is not set is global")
	require.Equal(t, "default", presetOf(t, pool, one[int64](t, pool, "SELECT sched.enqueue('other')")).Queue, "another kind")
	exec(t, pool, "DELETE FROM sched.kind")
	require.Equal(t, global, enqueueBoth(t, pool, "", ""))
}

// A queue that only a kind names is made as one that the call names.
func TestKindsQueueIsMade(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool, `INSERT INTO sched.kind (kind, queue, selector) VALUES ('plain', 'bulk', NULL), ('picky', NULL, '{"gpu": "a"}'), ('many', 'night', NULL)`)
	exec(t, pool, "SELECT sched.enqueue('plain'), sched.enqueue('picky')")
	exec(t, pool, `SELECT sched.enqueue_many('[{"kind": "many"}]')`)
	picky := one[string](t, pool, `SELECT sched.queue_name('default', '{"gpu": "a"}', 'any')`)
	for _, table := range []string{"sched.queue", "sched.river_queue"} {
		require.ElementsMatch(t, []string{"bulk", "night", picky}, all[string](t, pool, "SELECT name FROM "+table), table)
	}
}

// What enqueue refuses as an argument, sched.kind refuses as a default: one that
// got in would stop every enqueue of its kind.
func TestKindRefusesWhatEnqueueRefuses(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	columns := map[string]bool{"kind": true, "queue": true, "priority": true, "max_attempts": true, "protocol": true, "timeout": true, "selector": true}
	insert := func(call string) string { // "'a', queue => 'b'" as an INSERT
		kind, rest, named := strings.Cut(call, ", ")
		column, value, _ := strings.Cut(rest, " => ")
		if !named || strings.HasPrefix(call, "repeat(") {
			return "INSERT INTO sched.kind (kind) SELECT " + call
		}
		return "INSERT INTO sched.kind (kind, " + column + ") SELECT " + kind + ", " + value
	}
	tried := 0
	for _, tt := range badArguments {
		if !columns[tt.argument] {
			continue
		}
		tried++
		_, err := pool.Exec(t.Context(), insert(tt.call))
		if strings.HasSuffix(tt.call, "NULL") {
			require.ErrorContains(t, err, "23502", tt.call)
			continue
		}
		require.ErrorContains(t, err, "kind_"+tt.argument+"_check", tt.call)
	}
	require.Greater(t, tried, 25)

	for _, call := range []string{
		"repeat('a', 127)", "'_'", "'9'", "'a·b[c]<d>'", "'a1', queue => repeat('a', 100)", "'a2', queue => '0-a_b'",
		"'a3', priority => 4", "'a4', max_attempts => 32767", "'a5', timeout => '7 days'::interval", "'a6', timeout => '1 microsecond'::interval",
		"'a7', selector => jsonb_build_object(repeat('k', 63), repeat('ü', 255))", "'a8', selector => '{}'::jsonb",
		"'a9', selector => (SELECT jsonb_object_agg(i, '') FROM generate_series(1, 64) i)",
		`'b1', selector => '{"back\\slash\\n": "\\u0000 \\\\t \" / é \u00a0"}'::jsonb`,
	} {
		exec(t, pool, insert(call))
	}
	for _, kind := range all[string](t, pool, "SELECT kind FROM sched.kind") {
		exec(t, pool, "SELECT sched.enqueue($1)", kind)
	}
}

func TestKindsRetryColumns(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for column, values := range map[string][]string{
		"retry_base":   {"'0'", "'999 microseconds'", "'8 days'", "'-1 s'"},
		"retry_cap":    {"'0'", "'999 microseconds'", "'8 days'"},
		"retry_factor": {"0.99", "-1", "100.5", "'NaN'", "'Infinity'"},
		"retry_jitter": {"-0.1", "1", "'NaN'", "'-Infinity'"},
	} {
		for _, value := range values {
			_, err := pool.Exec(t.Context(), "INSERT INTO sched.kind (kind, "+column+") VALUES ('mail', "+value+")")
			require.ErrorContains(t, err, "kind_"+column+"_check", value)
		}
	}
	_, err := pool.Exec(t.Context(), "INSERT INTO sched.kind (kind, retry_base, retry_cap) VALUES ('mail', '2 s', '1 s')")
	require.ErrorContains(t, err, "kind_retry_cap_check")
	exec(t, pool, "INSERT INTO sched.kind (kind, retry_base, retry_cap, retry_factor, retry_jitter) VALUES ('mail', '1 ms', '1 ms', 1, 0), ('more', '7 days', '7 days', 100, 0.999)")
}

func TestKindRemembersWhoChangedIt(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool, "INSERT INTO sched.kind (kind, updated_by, updated_at) VALUES ('mail', 'someone', '1970-01-01')")
	const fresh = "SELECT updated_by = session_user AND updated_at > now() - interval '1 minute' FROM sched.kind"
	require.True(t, one[bool](t, pool, fresh))
	exec(t, pool, "UPDATE sched.kind SET updated_by = 'someone', updated_at = '1970-01-01'")
	require.True(t, one[bool](t, pool, fresh))
}
