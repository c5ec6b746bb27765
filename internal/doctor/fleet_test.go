package doctor

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

// elect makes somebody the leader, with a lease that ends in a while.
func elect(t *testing.T, pool *pgxpool.Pool, id, lease string) {
	t.Helper()
	exec(t, pool, `INSERT INTO sched.river_leader (elected_at, expires_at, leader_id, name)
		VALUES (now() - interval '2 hours', now() + $2::interval, $1, 'default')
		ON CONFLICT (name) DO UPDATE SET leader_id = excluded.leader_id, expires_at = excluded.expires_at`, id, lease)
}

func TestLeader(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	dsn := pgtest.DSN(pool)
	healthy(t, look(t, dsn, "leader", Options{}), "no worker that could")

	worker(t, pool, "w-1", "", "")
	require.Contains(t, ill(t, look(t, dsn, "leader", Options{}), Warning).Message, "nobody leads")

	elect(t, pool, "client-w-1", "10 s")
	healthy(t, look(t, dsn, "leader", Options{}), "sidecar client-w-1 leads since")

	elect(t, pool, "client-w-1", "-1 hour")
	require.Contains(t, ill(t, look(t, dsn, "leader", Options{}), Failed).Message, "none of 1 workers took over")

	elect(t, pool, "web-7_2026_01_01", "10 s")
	finding := ill(t, look(t, dsn, "leader", Options{}), Failed)
	require.Contains(t, finding.Message, `"web-7_2026_01_01" leads since `)
	require.Contains(t, finding.Message, "(2h0m")
	require.Contains(t, finding.Advice, "LeaderElectionDisabled")

	exec(t, pool, `UPDATE sched.worker SET state = 'done'`)
	require.Equal(t, Failed, look(t, dsn, "leader", Options{})[0].Level, "a foreign leader is one without workers too")
	elect(t, pool, "client-w-1", "10 s")
	worker(t, pool, "w-2", "", "")
	require.Contains(t, ill(t, look(t, dsn, "leader", Options{}), Warning).Message, "has ended")
}

func TestWorkers(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	dsn := pgtest.DSN(pool)
	require.Contains(t, ill(t, look(t, dsn, "workers", Options{}), Warning).Message, "no worker is registered: nothing runs tasks")
	exec(t, pool, `SELECT sched.enqueue('greet')`)
	require.Contains(t, ill(t, look(t, dsn, "workers", Options{}), Warning).Message, "and tasks wait")

	worker(t, pool, "w-1", "running", "3")
	worker(t, pool, "w-2", "", "")
	worker(t, pool, "w-gone", "ended_at", "now()")
	exec(t, pool, `UPDATE sched.worker SET state = 'done' WHERE id = 'w-gone'`)
	exec(t, pool, `UPDATE sched.worker SET state = 'draining', hostname = 'web-2' WHERE id = 'w-2'`)
	healthy(t, look(t, dsn, "workers", Options{}), "workers: 2 on 2 machines, 1 draining; tasks running: 3 of 20 slots")

	exec(t, pool, `UPDATE sched.worker SET heartbeat_at = now() - interval '2 minutes' WHERE id = 'w-1'`)
	finding := ill(t, look(t, dsn, "workers", Options{}), Failed)
	require.Contains(t, finding.Message, "w-1 on web-1 (pid 7), last heartbeat ")
}

func TestVersions(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	dsn := pgtest.DSN(pool)
	healthy(t, look(t, dsn, "versions", Options{}), "no worker")
	worker(t, pool, "w-1", "", "")
	worker(t, pool, "w-2", "", "")
	healthy(t, look(t, dsn, "versions", Options{}), "v1 (2)")
	exec(t, pool, `UPDATE sched.worker SET version = 'v2' WHERE id = 'w-2'`)
	require.Contains(t, ill(t, look(t, dsn, "versions", Options{}), Warning).Message, "v1 (1), v2 (1)")
}

func TestEvictions(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	dsn := pgtest.DSN(pool)
	for i := range 7 {
		worker(t, pool, "w-"+string(rune('a'+i)), "", "")
	}
	healthy(t, look(t, dsn, "evictions", Options{}), "no worker was evicted")
	exec(t, pool, `UPDATE sched.worker SET state = 'evicted', ended_at = now() - interval '2 hours', reason = 'heartbeat stood still for 20s'`)
	healthy(t, look(t, dsn, "evictions", Options{}), "no worker was evicted")

	exec(t, pool, `UPDATE sched.worker SET ended_at = now()`)
	finding := ill(t, look(t, dsn, "evictions", Options{}), Warning)
	require.Contains(t, finding.Message, "on web-1 (pid 7) at ")
	require.Contains(t, finding.Message, "heartbeat stood still for 20s")
	require.Contains(t, finding.Message, "; and more")
}

func TestHolders(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	dsn := pgtest.DSN(pool)
	exec(t, pool, `SELECT sched.enqueue('greet') FROM generate_series(1, 3)`)
	worker(t, pool, "w-1", "", "")
	exec(t, pool, `UPDATE sched.river_job SET state = 'running', attempt = 1, attempted_at = now(), attempted_by = '{somebody,w-1}'`)
	healthy(t, look(t, dsn, "holders", Options{}), "held by a live worker")

	exec(t, pool, `UPDATE sched.river_job SET attempted_by = '{w-1,web-7_2026}' WHERE id <= 2`)
	finding := ill(t, look(t, dsn, "holders", Options{}), Warning)
	require.Contains(t, finding.Message, "no sidecars: web-7_2026: 2 (oldest since ")
	exec(t, pool, `UPDATE sched.river_job SET attempted_by = '{w-1}'`)

	exec(t, pool, `UPDATE sched.worker SET state = 'evicted', ended_at = now()`)
	healthy(t, look(t, dsn, "holders", Options{}), "held by a live worker") // the sweep is under way
	exec(t, pool, `UPDATE sched.worker SET ended_at = now() - interval '2 minutes'`)
	require.Contains(t, ill(t, look(t, dsn, "holders", Options{}), Warning).Message, "workers that ended: w-1: 3")
}

func TestOverdue(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	dsn := pgtest.DSN(pool)
	exec(t, pool, `SELECT sched.enqueue('greet', run_at => now() + interval '1 hour') FROM generate_series(1, 1100)`)
	healthy(t, look(t, dsn, "overdue", Options{}), "no task is overdue")
	exec(t, pool, `UPDATE sched.river_job SET scheduled_at = now() - interval '10 s'`)
	healthy(t, look(t, dsn, "overdue", Options{}), "no task is overdue")
	exec(t, pool, `UPDATE sched.river_job SET scheduled_at = '2026-01-02 03:04:05+00' WHERE id = 1`)
	require.Contains(t, ill(t, look(t, dsn, "overdue", Options{}), Failed).Message, "1 tasks are scheduled or retryable although their time has come, the oldest since 2026-01-02T03:04:05Z")
	exec(t, pool, `UPDATE sched.river_job SET scheduled_at = now() - interval '1 minute'`)
	require.Contains(t, ill(t, look(t, dsn, "overdue", Options{}), Failed).Message, "1000 or more tasks")
}

func TestQueues(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	dsn := pgtest.DSN(pool)
	exec(t, pool, `SELECT sched.enqueue('train', selector => '{"gpu": "a100"}'), sched.enqueue('train', protocol => 'grpc'),
		sched.enqueue('mail', queue => 'mail'), sched.enqueue('greet')`)
	healthy(t, look(t, dsn, "queues", Options{}), "has a worker") // without any worker, the check workers says so
	worker(t, pool, "w-1", "queues", `'{default}'`)

	finding := ill(t, look(t, dsn, "queues", Options{}), Warning)
	require.Contains(t, finding.Message, `(queue default, selector {"gpu": "a100"}, protocol any)`)
	require.Contains(t, finding.Message, `(queue default, selector {}, protocol grpc)`)
	require.Contains(t, finding.Message, `mail (queue mail,`)
	require.NotContains(t, finding.Message, `default (queue default`)

	worker(t, pool, "w-2", "labels, protocols", `'{"gpu": "a100", "zone": "eu"}', '{http,grpc}'`)
	healthy(t, look(t, dsn, "queues", Options{}), "has a worker")

	exec(t, pool, `UPDATE sched.worker SET holds = '{app down}' WHERE id = 'w-2'`)
	finding = ill(t, look(t, dsn, "queues", Options{}), Warning)
	require.Contains(t, finding.Message, "these workers claim nothing: w-2 on ")
	require.Contains(t, finding.Message, "(app down)")
	exec(t, pool, `UPDATE sched.worker SET holds = '{}'`)

	exec(t, pool, `UPDATE sched.river_queue SET paused_at = now() - interval '1 hour' WHERE name IN ('mail', 'default')`)
	finding = ill(t, look(t, dsn, "queues", Options{}), Warning)
	require.Contains(t, finding.Message, "paused queues: ")
	require.Contains(t, finding.Message, "mail (since ")
	exec(t, pool, `DELETE FROM sched.river_job WHERE queue = 'mail'`)
	require.NotContains(t, ill(t, look(t, dsn, "queues", Options{}), Warning).Message, "mail")
}

func TestJudgeLeader_ExpiredForAMoment(t *testing.T) {
	t.Parallel()
	id, since := "x", time.Now()
	require.Equal(t, OK, judgeLeader(leader{id: &id, since: &since, expired: time.Second, live: true, wasWorker: true, workers: 2}, time.Now()).Level)
}
