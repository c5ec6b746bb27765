package governor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

func TestLeaderRoutes(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	conf := config(pool, &dispatcherFunc{work: complete})
	conf.Labels = map[string]string{"zone": "a"}
	g := start(t, conf)
	id := enqueue(t, pool, `'k', selector => '{"zone": "a"}'`)
	enqueue(t, pool, `'k', selector => '{"gpu": "true"}'`)
	text := func(query string) string {
		var s *string
		require.NoError(t, pool.QueryRow(t.Context(), query).Scan(&s))
		if s == nil {
			return ""
		}
		return *s
	}
	require.Eventually(t, func() bool { return column[string](t, pool, id, "state::text") == "completed" }, patience, 20*time.Millisecond)
	own := g.Status().WorkerID
	for what, query := range map[string]string{
		own:          `select string_agg(distinct worker_id, ' ') from sched.assignment as a join sched.queue as q on q.name = a.queue where q.selector <> '{}'`,
		"gpu=true":   `select unroutable from sched.queue where selector = '{"gpu": "true"}'`,
		own + " led": `select max(leader || ' led') from sched.fleet where topology_version > 0 and computed_at > clock_timestamp() - interval '5 seconds'`,
	} {
		require.Eventually(t, func() bool { return text(query) == what }, patience, 20*time.Millisecond, "%s: %s", what, query)
	}
}

func TestEvictedWorkerHasNoAssignments(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	_, err := pool.Exec(t.Context(), `
		insert into sched.worker (id, client_id, state, heartbeat_seq, running, slots, ceiling) values ('w-dead', 'dead', 'active', 1, 5, 10, 10);
		insert into sched.queue (name, base) values ('mail', 'mail')`)
	require.NoError(t, err)
	start(t, config(pool, &dispatcherFunc{work: complete}))
	assigned := func() (n int) {
		require.NoError(t, pool.QueryRow(t.Context(), `select count(*) from sched.assignment where worker_id = 'w-dead'`).Scan(&n))
		return n
	}
	require.Eventually(t, func() bool { return assigned() == 1 }, patience, 20*time.Millisecond)
	require.Eventually(t, func() bool { return assigned() == 0 }, patience, 20*time.Millisecond)
	var state, wake, decided string
	var running int
	require.NoError(t, pool.QueryRow(t.Context(), `select state, running from sched.worker where id = 'w-dead'`).Scan(&state, &running))
	require.Equal(t, "evicted", state)
	require.Zero(t, running)
	require.Eventually(t, func() bool {
		require.NoError(t, pool.QueryRow(t.Context(), `select coalesce(wake::text, ''), coalesce((select string_agg(what, ' ' order by what) from sched.decision
			where subject = 'w-dead' and what in ('evict', 'assignment') and to_value in ('evicted', 'none')), '') from sched.queue where name = 'mail'`).Scan(&wake, &decided))
		return decided == "assignment evict"
	}, patience, 20*time.Millisecond)
	require.NotContains(t, wake, "w-dead")
}
