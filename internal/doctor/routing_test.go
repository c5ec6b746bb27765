package doctor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

func TestRouting(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	dsn := pgtest.DSN(pool)
	healthy(t, look(t, dsn, "routing", Options{}), "no worker to route to")
	worker(t, pool, "w-1", "", "")
	require.Contains(t, ill(t, look(t, dsn, "routing", Options{}), Warning).Message, "no leader has routed yet")
	exec(t, pool, "UPDATE sched.fleet SET computed_at = now() - interval '2 minutes'")
	require.Contains(t, ill(t, look(t, dsn, "routing", Options{}), Warning).Message, "no leader has routed for 2m")
	exec(t, pool, "UPDATE sched.fleet SET computed_at = now() + interval '1 hour'")
	healthy(t, look(t, dsn, "routing", Options{}), "up to date")
	exec(t, pool, "INSERT INTO sched.queue (name, base, unroutable) SELECT 'q' || n, 'q', 'gpu=a' FROM generate_series(1, 7) AS n")
	findings := look(t, dsn, "routing", Options{})
	require.Len(t, findings, 2)
	require.Equal(t, "queues that demand what no live worker offers: q1 (gpu=a); q2 (gpu=a); q3 (gpu=a); q4 (gpu=a); q5 (gpu=a); and more", findings[1].Message)
}

func TestPressure(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	dsn := pgtest.DSN(pool)
	exec(t, pool, "INSERT INTO sched.queue (name, base, pressure, pressure_reason) VALUES ('bulk', 'bulk', 'red', '950 of 1000 pending')")
	exec(t, pool, "UPDATE sched.fleet SET pressure = 'red', computed_at = now() - interval '1 minute'")
	healthy(t, look(t, dsn, "pressure", Options{}), "red nowhere")
	exec(t, pool, "UPDATE sched.fleet SET computed_at = now() + interval '1 hour'")
	require.Equal(t, "pressure is red: the fleet; queue bulk: 950 of 1000 pending", ill(t, look(t, dsn, "pressure", Options{}), Warning).Message)
}

func TestCanaries(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	dsn := pgtest.DSN(pool)
	exec(t, pool, "INSERT INTO sched.canary (queue, percent, state, workers) VALUES ('good', 5, 'held', 1), ('off', 0, 'off', 0)")
	healthy(t, look(t, dsn, "canaries", Options{}), "no canary is stuck")
	exec(t, pool, "INSERT INTO sched.canary (queue, percent, state, reason) VALUES ('alone', 5, 'held', NULL), ('bad', 0, 'rolled_back', 'errors')")
	findings := look(t, dsn, "canaries", Options{})
	require.Len(t, findings, 2)
	require.Contains(t, findings[0].Message, "alone (5 %)")
	require.Contains(t, findings[1].Message, "bad: errors")
}
