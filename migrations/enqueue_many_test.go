package migrations_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

func TestEnqueueManyShape(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	require.Empty(t, all[int64](t, pool, "SELECT sched.enqueue_many('[]')"))
	for _, tt := range []struct{ tasks, message string }{
		{`{"kind": "a"}`, "not a JSON array"},
		{`null`, "not a JSON array"},
		{`[{"kind": "a"}, 7]`, `tasks\[1\]: it is a JSON number`},
		{`[[]]`, `tasks\[0\]: it is a JSON array`},
		{`[{}]`, `tasks\[0\]: kind NULL`},
		{`[{"kind": "a"}, {"kind": "a"}, {"kind": "a", "prio": 1}]`, `tasks\[2\]: .* unknown key 'prio'`},
		{`[{"kind": 1}]`, `kind is a JSON number`},
		{`[{"kind": "a", "unique_key": 7}]`, `unique_key is a JSON number`},
		{`[{"kind": "a", "timeout": 30}]`, `timeout is a JSON number`},
		{`[{"kind": "a", "priority": "1"}]`, `priority 1 is not a whole number`},
		{`[{"kind": "a", "priority": 1.5}]`, `priority 1.5 is not`},
		{`[{"kind": "a", "max_attempts": 1e20}]`, `max_attempts 1000000`},
		{`[{"kind": "a", "run_at": "next week, perhaps"}]`, `run_at 'next week, perhaps' can't be read`},
		{`[{"kind": "a", "timeout": "soon"}]`, `timeout 'soon' can't be read`},
	} {
		err := refused(t, pool, "22023", "SELECT sched.enqueue_many($1::jsonb)", tt.tasks)
		require.Regexp(t, tt.message, err.Message)
	}
	refused(t, pool, "22023", "SELECT sched.enqueue_many(NULL)")
	exec(t, pool, "UPDATE sched.setting SET value = '2' WHERE key = 'max_enqueue_many'")
	exec(t, pool, `SELECT sched.enqueue_many('[{"kind": "a"}, {"kind": "a"}]')`)
	require.Contains(t, refused(t, pool, "54000", `SELECT sched.enqueue_many('[{"kind": "a"}, {"kind": "a"}, {"kind": "a"}]')`).Message, "3 tasks")
}

func TestEnqueueManyKeepsTheOrder(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	old := one[int64](t, pool, "SELECT sched.enqueue('k', unique_key => 'old')")
	ids := all[int64](t, pool, `SELECT sched.enqueue_many('[
		{"kind": "z"}, {"kind": "k", "unique_key": "b"}, {"kind": "k", "unique_key": "old"}, {"kind": "y"},
		{"kind": "k", "unique_key": "a"}, {"kind": "k", "unique_key": "b", "priority": 4}, {"kind": "other", "unique_key": "b"}]')`)
	require.Len(t, ids, 7)
	require.Equal(t, old, ids[2])
	require.Equal(t, ids[1], ids[5], "the second of two equal keys gets the first one's id")
	require.Equal(t, []string{"z", "k", "k", "y", "k", "k", "other"}, all[string](t, pool,
		"SELECT j.kind FROM unnest($1::bigint[]) WITH ORDINALITY AS u (id, ord) JOIN sched.river_job j USING (id) ORDER BY ord", ids))
	require.Equal(t, "b", one[string](t, pool, "SELECT unique_key FROM sched.task WHERE id = $1", ids[1]))
	require.Equal(t, 1, one[int](t, pool, "SELECT priority FROM sched.task WHERE id = $1", ids[1]), "the first is the one that counts")
	fresh := []int64{ids[0], ids[1], ids[3], ids[4], ids[6]}
	require.IsIncreasing(t, fresh, "tasks start in the order given")
}

// manySQL makes n task objects, by a generator g.
func manySQL(object string) string {
	return "SELECT sched.enqueue_many((SELECT jsonb_agg(jsonb_build_object(" + object + ") ORDER BY g) FROM generate_series(1, $1::int) AS g))"
}

// A bulk enqueue costs a small multiple of the plain inserts it stands for (about
// 4 on a quiet machine, 13 with every argument). The bound is wide, since the
// other tests share the machine; anything quadratic is far beyond it.
func TestEnqueueManyTenThousand(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	const n, rounds, bound = 10_000, 4, 100.0
	type variant struct {
		name, sql string
		best      time.Duration
	}
	insert := `INSERT INTO sched.river_job (kind, args, max_attempts, metadata)
		SELECT 'mail', jsonb_build_object('n', g), 25, '{"sched:by": {"user": "someone", "app": "an app"}}' FROM generate_series(1, $1::int) AS g RETURNING id`
	variants := []*variant{
		{name: "inserts", sql: insert},
		{name: "plain", sql: manySQL("'kind', 'mail', 'args', jsonb_build_object('n', g)")},
		{name: "keyed", sql: manySQL("'kind', 'mail', 'unique_key', g::text")},
		{name: "all", sql: manySQL(`'kind', 'all', 'queue', 'q' || g % 3, 'selector', '{"gpu": "a"}'::jsonb, 'timeout', '30 seconds',
			'run_at', '2100-01-01', 'headers', '{"a": "b"}'::jsonb, 'batch', 'b'`)},
	}
	for range rounds {
		for _, v := range variants {
			exec(t, pool, "TRUNCATE sched.river_job")
			began := time.Now()
			ids := all[int64](t, pool, v.sql, n)
			if took := time.Since(began); v.best == 0 || took < v.best {
				v.best = took
			}
			require.Len(t, ids, n)
			require.Equal(t, n, one[int](t, pool, "SELECT count(*)::int FROM sched.river_job"))
			require.IsIncreasing(t, ids)
			if v.name == "plain" {
				require.Equal(t, []int64{1, n}, all[int64](t, pool,
					"SELECT (args ->> 'n')::bigint FROM sched.river_job WHERE id = ANY ($1) ORDER BY id", []int64{ids[0], ids[n-1]}))
			}
		}
	}
	for _, v := range variants {
		ratio := v.best.Seconds() / variants[0].best.Seconds()
		t.Logf("%s: %v, %.1f of plain inserts", v.name, v.best.Round(time.Millisecond), ratio)
		require.LessOrEqual(t, ratio, bound, v.name)
	}
}

// Two calls with the same keys in opposite orders don't deadlock.
func TestEnqueueManyKeysInOppositeOrders(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	const n, rounds = 500, 5
	for round := range rounds {
		ids := make([][]int64, 4)
		var wg sync.WaitGroup
		for i := range ids {
			conn := connect(t, pool, "")
			key := fmt.Sprintf("'r%d ' || g", round)
			if i%2 == 1 {
				key = fmt.Sprintf("'r%d ' || ($1 + 1 - g)", round)
			}
			wg.Go(func() { ids[i] = all[int64](t, conn, manySQL("'kind', 'mail', 'unique_key', "+key), n) })
		}
		wg.Wait()
		for i := range ids {
			require.Len(t, ids[i], n)
			require.ElementsMatch(t, ids[0], ids[i])
		}
		require.Equal(t, n*(round+1), one[int](t, pool, "SELECT count(*)::int FROM sched.river_job"))
	}
}

func TestDiscoverQueues(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	type found struct {
		Name, Base, Selector, Protocol string
		Added                          bool
	}
	discover := func() []found {
		t.Helper()
		return rowsOf[found](t, pool, "SELECT name, base, selector::text, protocol, added FROM sched.discover_queues()")
	}
	require.Empty(t, discover())
	exec(t, pool, "SELECT sched.enqueue('ours')")
	exec(t, pool, `INSERT INTO sched.river_job (kind, queue, args, max_attempts, metadata) VALUES
		('x', 'theirs', '{}', 1, '{}'), ('x', 'theirs', '{}', 1, '{}'), 
		('x', 'a|b', '{}', 1, '{"sched:selector": {"gpu": "a"}, "sched:protocol": "grpc"}'),
		('x', 'plain', '{}', 1, '{"sched:selector": {"gpu": "a"}}'), ('x', 'q|0123456789ab', '{}', 1, '{}'),
		('x', sched.queue_name('q', '{"gpu": "a"}', 'grpc'), '{}', 1, '{"sched:selector": {"gpu": "a"}, "sched:protocol": "grpc"}'),
		('x', 'odd', '{}', 1, '{"sched:selector": 7, "sched:protocol": "telex"}')`)
	require.Equal(t, []found{
		{"a|b", "a", "{}", "any", true}, // what one task demands doesn't bind a queue of another name
		{"odd", "odd", "{}", "any", true},
		{"plain", "plain", "{}", "any", true},
		{one[string](t, pool, `SELECT sched.queue_name('q', '{"gpu": "a"}', 'grpc')`), "q", `{"gpu": "a"}`, "grpc", true},
		{"theirs", "theirs", "{}", "any", true},
	}, discover())
	require.Empty(t, discover(), "known now")

	exec(t, pool, "DELETE FROM sched.river_queue WHERE name = 'odd'")
	exec(t, pool, "UPDATE sched.river_queue SET updated_at = now() - interval '1 hour', paused_at = now() WHERE name = 'theirs'")
	require.Empty(t, discover())
	require.Equal(t, []string{"a|b", "default", "odd", "plain", one[string](t, pool, `SELECT sched.queue_name('q', '{"gpu": "a"}', 'grpc')`), "theirs"}, all[string](t, pool,
		"SELECT name FROM sched.river_queue WHERE updated_at > now() - interval '1 minute' ORDER BY name COLLATE \"C\""))
	require.Equal(t, []string{"theirs"}, all[string](t, pool, "SELECT name FROM sched.river_queue WHERE paused_at IS NOT NULL"))
}

func TestQueueNameIsPure(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	name := func(args string) string {
		t.Helper()
		return one[string](t, pool, "SELECT sched.queue_name("+args+")")
	}
	require.Equal(t, "q", name("'q', '{}', 'any'"))
	require.Equal(t, "q", name("'q', NULL, NULL"))
	require.Equal(t, name(`'q', '{"a": "1", "b": "2"}', 'any'`), name(`'q', '{"b":"2","a":"1"}', 'any'`))
	// What other implementations must come to.
	require.Equal(t, "q|"+one[string](t, pool, `SELECT left(md5('{"a": "1"}|grpc'), 12)`), name(`'q', '{"a":"1"}', 'grpc'`))
	distinct := map[string]bool{}
	for _, args := range []string{`'q', '{}', 'http'`, `'q', '{}', 'grpc'`, `'q', '{"a": "1"}', 'any'`, `'q', '{"a": "2"}', 'any'`, `'p', '{}', 'http'`} {
		distinct[name(args)] = true
	}
	require.Len(t, distinct, 5)
}
