package doctor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	dsn := pgtest.DSN(pool)
	healthy(t, look(t, dsn, "limits", Options{}), "no queue or kind has a limit of its own")

	exec(t, pool, `SELECT sched.enqueue('import', queue => 'bulk'), sched.enqueue('import', queue => 'bulk')`)
	exec(t, pool, `UPDATE sched.queue SET rate = 5, max_running = 1, max_pending = 200 WHERE name = 'bulk'`)
	exec(t, pool, `INSERT INTO sched.kind (kind, rate) VALUES ('import', 0.5)`)
	healthy(t, look(t, dsn, "limits", Options{}),
		"limits in force: queue bulk: 5 a second, at most 1 running, full at 200; kind import: 0.5 a second")

	exec(t, pool, `UPDATE sched.river_job SET state = 'running', attempt = 1, attempted_at = now(), attempted_by = '{w-1}'
		WHERE id = (SELECT min(id) FROM sched.river_job)`)
	finding := ill(t, look(t, dsn, "limits", Options{}), Warning)
	require.Contains(t, finding.Message, "queue bulk (1 running of at most 1)")
	require.Contains(t, finding.Advice, "sched queues set")
	exec(t, pool, `UPDATE sched.queue SET max_running = 2`)

	exec(t, pool, `SELECT sched.pause_kind('import', now() + interval '1 minute', 'HTTP 429: busy', 'w-1')`)
	finding = ill(t, look(t, dsn, "limits", Options{}), Warning)
	require.Regexp(t, `kind import until \d\d:\d\d:\d\dZ \(HTTP 429: busy\)`, finding.Message)
}
