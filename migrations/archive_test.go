package migrations_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/migrations"
)

// longAgo is the beginning of what archive is given: everything that ended.
const longAgo = "2000-01-01"

// archive moves what may be moved of each status, and returns how many tasks.
func archive(t *testing.T, db querier) int {
	t.Helper()
	return one[int](t, db, `SELECT sum(a.moved)::int FROM unnest('{completed,cancelled,discarded}'::sched.river_job_state[]) AS s
		CROSS JOIN LATERAL sched.archive_tasks(s, '`+longAgo+`', 1000) AS a`)
}

// ended makes a task that ended, some time ago, after an attempt that was retried and
// one more.
func ended(t *testing.T, db querier, status, ago string) int64 {
	t.Helper()
	id := one[int64](t, db, `SELECT sched.enqueue('mail', '{"to": "ann"}', unique_key => 'k' || gen_random_uuid(), batch => 'night', headers => '{"a": "b"}', timeout => '3 s')`)
	exec(t, db, `INSERT INTO sched.worker (id, client_id, hostname) VALUES ('w-one', 'c', 'alpha') ON CONFLICT DO NOTHING`)
	exec(t, db, `INSERT INTO sched.attempt_log (task_id, attempt, worker_id, started_at, ended_at, outcome, error)
		VALUES ($1, 1, 'w-one', now() - $2::interval - interval '2 s', now() - $2::interval - interval '1 s', 'retry', 'boom')`, id, ago)
	exec(t, db, `UPDATE sched.river_job SET state = $2::sched.river_job_state, attempt = 2, attempted_by = '{w-one,w-two}', attempted_at = now() - $3::interval - interval '0.5 s',
		finalized_at = now() - $3::interval, errors = ARRAY[jsonb_build_object('attempt', 2, 'error', 'bang')],
		metadata = metadata || '{"output": {"sent": true}}' WHERE id = $1`, id, status, ago)
	return id
}

// told is all that the views say of a task, but for where it is.
func told(t *testing.T, db querier, id int64) []string {
	t.Helper()
	return append(all[string](t, db, `SELECT (to_jsonb(t) - '{archived,host}'::text[])::text FROM sched.task AS t WHERE id = $1`, id),
		all[string](t, db, `SELECT to_jsonb(a)::text FROM sched.attempt AS a WHERE task_id = $1 ORDER BY start_time`, id)...)
}

func TestArchiveKeepsWhatTheViewsTell(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for _, status := range []string{"completed", "cancelled", "discarded"} {
		id := ended(t, pool, status, "16 minutes")
		before, batch := told(t, pool, id), all[string](t, pool, "SELECT b::text FROM sched.batch AS b")
		require.Len(t, before, 3, "the task, and two attempts")
		require.Equal(t, 1, archive(t, pool))
		require.False(t, one[bool](t, pool, "SELECT EXISTS (SELECT FROM sched.river_job WHERE id = $1)", id))
		require.False(t, one[bool](t, pool, "SELECT EXISTS (SELECT FROM sched.attempt_log WHERE task_id = $1)", id))
		require.Equal(t, before, told(t, pool, id))
		require.Equal(t, batch, all[string](t, pool, "SELECT b::text FROM sched.batch AS b"))
		require.True(t, one[bool](t, pool, "SELECT archived FROM sched.task WHERE id = $1", id))
		require.Equal(t, []string{"alpha", ""}, all[string](t, pool, "SELECT coalesce(host, '') FROM sched.attempt WHERE task_id = $1 ORDER BY start_time", id))
	}
}

// The last attempt of a task that was cancelled while it waited for the next one ended before.
func TestArchiveKeepsAnAttemptThatEndedBeforeItsTask(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	id := ended(t, pool, "cancelled", "1 hour")
	exec(t, pool, "UPDATE sched.river_job AS j SET attempt = 1, attempted_at = l.started_at FROM sched.attempt_log AS l WHERE l.task_id = j.id")
	before := told(t, pool, id)
	require.Len(t, before, 2)
	require.Equal(t, 1, archive(t, pool))
	require.Equal(t, before, told(t, pool, id))
}

func TestWhatStaysInTheHotTable(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	ended(t, pool, "completed", "14 minutes")
	exec(t, pool, "SELECT sched.enqueue('mail', run_at => now() + interval '1 hour')")
	// As River's clients ask for unique jobs: also over those that completed.
	for _, ago := range []string{"23 hours", "25 hours"} {
		exec(t, pool, `UPDATE sched.river_job SET unique_states = B'11110101' WHERE id = $1`, ended(t, pool, "completed", ago))
	}
	require.Equal(t, 1, archive(t, pool), "the one that River would delete")
	exec(t, pool, "UPDATE sched.setting SET value = '60' WHERE key = 'archive_after_seconds'")
	require.Equal(t, 1, archive(t, pool))
	require.EqualValues(t, 2, one[int64](t, pool, "SELECT count(*) FROM sched.river_job"))
	for _, bad := range []string{"9", "2592001", "1.5", `"60"`, "null"} {
		_, err := pool.Exec(t.Context(), "UPDATE sched.setting SET value = $1 WHERE key = 'archive_after_seconds'", bad)
		require.ErrorContains(t, err, "setting_archive_fits", bad)
	}
}

// Whoever holds a task's row is not waited for, and the task is left for the next time.
func TestArchiveWaitsForNobody(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	held, free := ended(t, pool, "completed", "1 hour"), ended(t, pool, "completed", "1 hour")
	tx := begin(t, connect(t, pool, ""))
	exec(t, tx, "SELECT FROM sched.river_job WHERE id = $1 FOR NO KEY UPDATE", held)
	exec(t, pool, "SET lock_timeout = '1 s'")
	require.Equal(t, 1, archive(t, pool))
	require.Equal(t, []int64{free}, all[int64](t, pool, "SELECT id FROM sched.task WHERE archived"))
	require.NoError(t, tx.Rollback(t.Context()))
	require.Equal(t, 1, archive(t, pool))
}

func TestWhatIsDoneToArchivedTasks(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	id := ended(t, pool, "completed", "1 hour")
	key := one[string](t, pool, "SELECT unique_key FROM sched.task WHERE id = $1", id)
	lease := one[string](t, pool, "SELECT 'w-two.' || (extract(epoch FROM start_time) * 1000000)::bigint FROM sched.task WHERE id = $1", id)
	attempts := all[string](t, pool, "SELECT a::text FROM sched.attempt AS a WHERE task_id = $1 ORDER BY start_time", id)
	require.Equal(t, 1, archive(t, pool))

	require.Equal(t, "completed", one[string](t, pool, "SELECT sched.cancel($1)", id))
	require.Contains(t, refused(t, pool, "SC409", "SELECT sched.complete($1, $2)", id, lease).Message, "this attempt was completed already")
	require.Contains(t, refused(t, pool, "SC409", "SELECT sched.complete($1, 'w-x.1000000')", id).Message, "is completed since")
	story := strings.Join(all[string](t, pool, "SELECT sched.explain($1)", id), "\n")
	require.Contains(t, story, "It completed at")
	require.Contains(t, story, "It is in the archive")
	require.Contains(t, story, "boom")

	other := one[int64](t, pool, "SELECT sched.enqueue('mail', unique_key => $1)", key)
	require.NotEqual(t, id, other, "the key is free")
	refused(t, pool, "SC410", "SELECT sched.retry($1)", id)
	require.True(t, one[bool](t, pool, "SELECT archived FROM sched.task WHERE id = $1", id), "nothing changed")
	exec(t, pool, "SELECT sched.cancel($1)", other)
	require.Equal(t, "available", one[string](t, pool, "SELECT sched.retry($1)", id))
	require.False(t, one[bool](t, pool, "SELECT archived FROM sched.task WHERE id = $1", id))
	require.Equal(t, attempts, all[string](t, pool, "SELECT a::text FROM sched.attempt AS a WHERE task_id = $1 ORDER BY start_time", id))
	require.Equal(t, id, one[int64](t, pool, "SELECT sched.enqueue('mail', unique_key => $1)", key), "its key holds again")
	require.Equal(t, "available", one[string](t, pool, "SELECT sched.retry($1)", id), "it is there already")
	refused(t, pool, "SC404", "SELECT sched.retry(4711)")
	refused(t, pool, "SC404", "SELECT sched.cancel(4711)")
}

// Two people who bring a task back at once get one task.
func TestRetryOfAnArchivedTaskTwiceAtOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	id := ended(t, pool, "discarded", "1 hour")
	require.Equal(t, 1, archive(t, pool))
	first, second := begin(t, connect(t, pool, "")), connect(t, pool, "")
	require.Equal(t, "available", one[string](t, first, "SELECT sched.retry($1)", id))
	answer := make(chan error, 1)
	go func() {
		_, err := second.Exec(context.WithoutCancel(t.Context()), "SELECT sched.retry($1)", id)
		answer <- err
	}()
	waitsForLock(t, pool, second)
	require.NoError(t, first.Commit(t.Context()))
	require.NoError(t, <-answer)
	require.EqualValues(t, 1, one[int64](t, pool, "SELECT count(*) FROM sched.task"))
}

func waitsForLock(t *testing.T, pool querier, conn *pgx.Conn) {
	t.Helper()
	require.Eventually(t, func() bool {
		return one[bool](t, pool, "SELECT coalesce(bool_or(wait_event_type = 'Lock'), false) FROM pg_stat_activity WHERE pid = $1", conn.PgConn().PID())
	}, time.Minute, 5*time.Millisecond)
}

type months struct {
	Made, Dropped int
	Waiting       bool
}

func keepMonths(t *testing.T, db querier) months {
	t.Helper()
	return rowsOf[months](t, db, "SELECT made, dropped, waiting FROM sched.archive_months()")[0]
}

func partitions(t *testing.T, db querier) []string {
	t.Helper()
	return all[string](t, db, "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'sched.task_archive'::regclass ORDER BY 1")
}

func TestMonthsOfTheArchive(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	require.Equal(t, months{Made: 4}, keepMonths(t, pool))
	require.Equal(t, months{}, keepMonths(t, pool), "there already")
	require.Len(t, partitions(t, pool), 5)

	ended(t, pool, "completed", "1 hour")
	require.Equal(t, 1, archive(t, pool))
	require.Zero(t, one[int](t, pool, "SELECT count(*)::int FROM sched.task_archive_default"))
	// Each index of the parent is one of the partitions', by which the audits find things.
	require.Empty(t, all[string](t, pool, `SELECT i.indexrelid::regclass::text FROM pg_index AS i
		WHERE i.indrelid = 'sched.task_archive'::regclass AND (SELECT count(*) FROM pg_inherits AS h WHERE h.inhparent = i.indexrelid) <> 5`))

	// What is older than 90 days goes: whole months, and of the default partition what is older.
	exec(t, pool, `CREATE TABLE sched.task_archive_2001_01 PARTITION OF sched.task_archive FOR VALUES FROM ('2001-01-01 00:00:00+00') TO ('2001-02-01 00:00:00+00')`)
	for _, ago := range []string{"1000 days", "89 days"} {
		exec(t, pool, `INSERT INTO sched.task_archive (id, kind, queue, status, end_time, attempt, max_attempts, priority, run_at, created_at, last_logged, args, metadata, tags)
			VALUES (1, 'k', 'q', 'completed', now() - $1::interval, 1, 1, 1, now(), now(), false, '{}', '{}', '{}')`, ago)
	}
	exec(t, pool, "UPDATE sched.setting SET value = '95' WHERE key = 'archive_keep_days'")
	require.Equal(t, months{Dropped: 1}, keepMonths(t, pool))
	require.NotContains(t, partitions(t, pool), "sched.task_archive_2001_01")
	require.EqualValues(t, 2, one[int64](t, pool, "SELECT count(*) FROM sched.task"), "one of the default partition is gone")
}

// A month of which tasks came to the default partition stays there: they would have to be moved under a lock.
func TestMonthThatTheDefaultPartitionHas(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	id := ended(t, pool, "completed", "1 hour")
	require.Equal(t, 1, archive(t, pool))
	require.Equal(t, 3, keepMonths(t, pool).Made)
	require.Equal(t, []int64{id}, all[int64](t, pool, "SELECT id FROM sched.task_archive_default"))
}

// Whoever reads the archive goes first, and nobody waits behind the partitions.
func TestMonthsGiveWay(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	reader := begin(t, connect(t, pool, ""))
	exec(t, reader, "SELECT count(*) FROM sched.task")
	require.Equal(t, months{Waiting: true}, keepMonths(t, pool))
	require.Len(t, partitions(t, pool), 1)
	require.NoError(t, reader.Rollback(t.Context()))
	require.Equal(t, months{Made: 4}, keepMonths(t, pool))
}

// An app that puts a task off each second must not fill the log.
func TestLogOfATaskIsBounded(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	id := one[int64](t, pool, "SELECT sched.enqueue('mail')")
	for range 4 {
		exec(t, pool, `INSERT INTO sched.attempt_log (task_id, attempt, worker_id, started_at, ended_at, outcome)
			SELECT $1, 1, 'w-one', to_timestamp(g), to_timestamp(g + 1), 'snooze'
			FROM generate_series((SELECT count(*) + coalesce(sum(skipped), 0) + 1 FROM sched.attempt_log), (SELECT count(*) + coalesce(sum(skipped), 0) + 60 FROM sched.attempt_log)) AS g`, id)
	}
	require.Equal(t, []int64{100, 140, 1, 50, 191, 240}, rowsOf[struct{ V []int64 }](t, pool, `SELECT ARRAY[count(*), sum(skipped),
		min(extract(epoch FROM start_time)), (array_agg(extract(epoch FROM start_time) ORDER BY start_time))[50],
		(array_agg(extract(epoch FROM start_time) ORDER BY start_time))[51], max(extract(epoch FROM start_time))]::bigint[]
		FROM sched.attempt WHERE task_id = $1`, id)[0].V)
	require.EqualValues(t, 140, one[int64](t, pool, "SELECT skipped FROM sched.attempt WHERE task_id = $1 AND start_time = to_timestamp(191)", id))
}

// The way back has the archived tasks in the hot table again.
func TestDowngradeBringsArchivedTasksBack(t *testing.T) {
	t.Parallel()
	pool := pgtest.Empty(t)
	require.NoError(t, migrations.Up(t.Context(), pgtest.DSN(pool), noRoles()))
	id := ended(t, pool, "completed", "1 hour")
	exec(t, pool, "UPDATE sched.river_job SET unique_states = B'11110101', finalized_at = now() - interval '2 days'")
	before := told(t, pool, id)
	keepMonths(t, pool)
	require.Equal(t, 1, archive(t, pool))
	require.NoError(t, migrations.DownTo(t.Context(), pgtest.DSN(pool), 52, noRoles()))
	require.True(t, one[bool](t, pool, "SELECT EXISTS (SELECT FROM sched.river_job WHERE id = $1)", id))
	require.Equal(t, before, told(t, pool, id))
	require.Empty(t, all[string](t, pool, "SELECT relname::text FROM pg_class WHERE relnamespace = 'sched'::regnamespace AND relname LIKE 'task_archive%'"))
	require.NoError(t, migrations.Up(t.Context(), pgtest.DSN(pool), noRoles()))
	require.Equal(t, before, told(t, pool, id))
}

// The archive is what happened: sidecars move tasks by the functions, and change none.
func TestNobodyWritesTheArchive(t *testing.T) {
	t.Parallel()
	pool, roles := withRoles(t)
	sidecar := connect(t, pool, newRole(t, pool, "IN ROLE "+roles.Sidecar))
	ended(t, pool, "completed", "1 hour")
	require.Equal(t, 4, keepMonths(t, sidecar).Made)
	require.Equal(t, 1, archive(t, sidecar))
	// Rights don't grow with the next migration.
	require.NoError(t, migrations.Up(t.Context(), pgtest.DSN(pool), migrations.Options{Roles: roles}))
	exec(t, sidecar, "SELECT FROM sched.task_archive")
	auditor := connect(t, pool, newRole(t, pool, "IN ROLE "+roles.Auditor))
	require.EqualValues(t, 1, one[int64](t, auditor, "SELECT count(*) FROM sched.task WHERE archived"))
	for _, table := range append(partitions(t, pool), "sched.task_archive") {
		denied(t, auditor, "SELECT FROM "+table)
		denied(t, sidecar, "DELETE FROM "+table)
		denied(t, sidecar, "UPDATE "+table+" SET kind = 'other'")
		require.Equal(t, roles.Owner, one[string](t, pool, "SELECT pg_get_userbyid(relowner)::text FROM pg_class WHERE oid = $1::regclass", table))
	}
}
