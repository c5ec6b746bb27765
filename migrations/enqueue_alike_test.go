package migrations_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

// What bulk enqueues leave in the table, whichever way they take: all of a row
// but its id and times.
const enqueuedRow = "kind || args::text || queue || priority || max_attempts || state::text || metadata::text"

func TestEnqueueManyAlikeMakesTheSameRows(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool, "INSERT INTO sched.kind (kind, queue, max_attempts) VALUES ('mail', 'letters', 3)")
	for _, options := range []string{
		`{"kind": "mail"}`,
		`{"kind": "mail", "priority": 4, "queue": null, "headers": {"a": "b"}, "batch": "x"}`,
		`{"kind": "other", "selector": {"zone": "a"}, "protocol": "grpc", "timeout": "3 seconds", "max_attempts": 9}`,
		`{"kind": "other", "run_at": "2100-01-01T00:00:00Z"}`,
	} {
		ids := all[int64](t, pool, `SELECT sched.enqueue_many((
			SELECT jsonb_agg($1::jsonb || CASE g WHEN 1 THEN '{}' WHEN 2 THEN '{"args": null}' ELSE jsonb_build_object('args', g) END ORDER BY g)
			FROM generate_series(1, 50) AS g))`, options)
		require.Len(t, ids, 50)
		require.IsIncreasing(t, ids)
		apart := all[int64](t, pool, `SELECT sched.enqueue_many_mixed((
			SELECT jsonb_agg($1::jsonb || CASE g WHEN 1 THEN '{}' WHEN 2 THEN '{"args": null}' ELSE jsonb_build_object('args', g) END ORDER BY g)
			FROM generate_series(1, 50) AS g))`, options)
		rows := "SELECT " + enqueuedRow + " FROM sched.river_job WHERE id = ANY ($1) ORDER BY id"
		require.Equal(t, all[string](t, pool, rows, apart), all[string](t, pool, rows, ids))
	}
	require.ElementsMatch(t, []string{"letters", "default"}, all[string](t, pool,
		"SELECT DISTINCT base FROM sched.queue WHERE name IN (SELECT queue FROM sched.river_job)"))
}

// Only tasks that differ in nothing but their args are made the quick way, and
// only if there is nothing to say about them.
func TestEnqueueAlikeLeavesTheRestAlone(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	alike := func(tasks string) bool {
		return one[bool](t, pool, "SELECT sched.enqueue_alike($1::jsonb) IS NOT NULL", tasks)
	}
	require.True(t, alike(`[{"kind": "a", "args": 1}, {"args": {"n": 2}, "kind": "a"}, {"kind": "a"}]`))
	require.Equal(t, []string{"1", `{"n": 2}`, "{}"}, all[string](t, pool, "SELECT args::text FROM sched.river_job ORDER BY id"))
	for _, tasks := range []string{
		`[]`, `{}`, `null`, `7`, `[7]`, `[{"kind": "a"}, 7]`, `[{"kind": "a"}, ["kind"]]`, `[{}]`, `[{"kind": "a", "prio": 1}]`,
		`[{"kind": "a"}, {"kind": "b"}]`, `[{"kind": "a"}, {"kind": "a", "priority": 1}]`, `[{"kind": "a", "unique_key": "k"}]`,
		`[{"kind": "a", "priority": 9}]`, `[{"kind": "a", "run_at": "soon"}]`,
	} {
		require.False(t, alike(tasks), tasks)
	}
	exec(t, pool, "UPDATE sched.setting SET value = '8192' WHERE key = 'max_args_bytes'")
	long := strings.Repeat("x", 8190)
	require.False(t, alike(`[{"kind": "a", "args": "`+long+`"}, {"kind": "a", "args": "`+long+`x"}]`), "args over the limit")
	exec(t, pool, "UPDATE sched.setting SET value = '2' WHERE key = 'max_enqueue_many'")
	require.False(t, alike(`[{"kind": "a"}, {"kind": "a"}, {"kind": "a"}]`), "too many")
	exec(t, pool, "UPDATE sched.queue SET pressure = 'red', admission = 'reject' WHERE name = 'default'")
	require.False(t, alike(`[{"kind": "a"}]`), "the door is not open")
	require.Equal(t, 3, one[int](t, pool, "SELECT count(*) FROM sched.river_job"), "nothing was added by a no")
}
