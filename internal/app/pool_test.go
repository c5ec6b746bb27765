package app

import (
	"log/slog"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/config"
	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/sql/dbq"
)

func openTestPool(t *testing.T, dsn string) *pgxpool.Pool {
	t.Helper()
	pool, err := openPool(t.Context(), config.Database{URL: config.DSN(dsn), PoolMax: 4}, "test", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func show(t *testing.T, pool *pgxpool.Pool, name string) string {
	t.Helper()
	var value string
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT current_setting($1)", name).Scan(&value))
	return value
}

func TestPoolSaysWhoItIsAndBoundsItsTransactions(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(pgtest.Empty(t))

	pool := openTestPool(t, dsn)
	require.Equal(t, "test", show(t, pool, "application_name"))
	require.Equal(t, "10s", show(t, pool, "idle_in_transaction_session_timeout"))
	require.EqualValues(t, 4, pool.Config().MaxConns)
	require.Equal(t, surplusAfter, pool.Config().MaxConnIdleTime)

	pool = openTestPool(t, dsn+"&pool_max_conn_idle_time=7m&application_name=mine&idle_in_transaction_session_timeout=30s&default_transaction_isolation=serializable")
	require.Equal(t, 7*time.Minute, pool.Config().MaxConnIdleTime)
	require.Equal(t, "read committed", show(t, pool, "transaction_isolation"))
	require.Equal(t, "mine", show(t, pool, "application_name"), "the connection string has the last word")
	require.Equal(t, "30s", show(t, pool, "idle_in_transaction_session_timeout"), "an administrator's limit stays")
}

func TestPoolLeavesAServerThatBecameReadOnly(t *testing.T) {
	t.Parallel()
	pool := openTestPool(t, pgtest.DSN(pgtest.Empty(t)))
	var before, after int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&before))
	_, err := pool.Exec(t.Context(), "SET default_transaction_read_only = on")
	require.NoError(t, err)

	_, err = pool.Exec(t.Context(), "CREATE TABLE anything ()")

	require.ErrorContains(t, err, "25006")
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&after))
	require.NotEqual(t, before, after)
	_, err = pool.Exec(t.Context(), "CREATE TABLE anything ()")
	require.NoError(t, err)
}

func TestPoolTakesNoServerThatOnlyReads(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(pgtest.Empty(t)) + "&default_transaction_read_only=on"

	_, err := openPool(t.Context(), config.Database{URL: config.DSN(dsn), PoolMax: 4}, "test", slog.New(slog.DiscardHandler))

	require.ErrorContains(t, err, "read only connection")
	require.ErrorContains(t, err, "name the primary")
}

func TestUnreachableDatabase(t *testing.T) {
	t.Parallel()
	// One that takes connections and says nothing: as long as it may, and no longer.
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, silent.Close()) })
	_, port, err := net.SplitHostPort(silent.Addr().String())
	require.NoError(t, err)

	for _, dsn := range []string{
		"postgres://somebody:topsecret@127.0.0.1:" + port + "/app?connect_timeout=1",
		"postgres://somebody:topsecret@127.0.0.1:" + port + ",127.0.0.1:1/app?connect_timeout=1",
		"host=127.0.0.1 port=" + port + " user=somebody password=topsecret dbname=app connect_timeout=1",
	} {
		started := time.Now()
		_, err := openPool(t.Context(), config.Database{URL: config.DSN(dsn), PoolMax: 4}, "test", slog.New(slog.DiscardHandler))
		require.ErrorContains(t, err, "no connection to the database")
		require.ErrorContains(t, err, port, "where it looked")
		require.ErrorContains(t, err, "SCHED_DATABASE_URL", "what to check")
		require.NotContains(t, err.Error(), "topsecret")
		require.Less(t, time.Since(started), connectTimeout)
		require.Less(t, strings.Count(err.Error(), "\n"), 8, err.Error())
	}
}

func TestConnectTimeouts(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]time.Duration{
		"host=a":                           connectTimeout,
		"host=a sslmode=prefer":            connectTimeout, // with and without TLS: one host
		"host=a,b":                         nextHostTimeout,
		"host=a,a port=1,2":                nextHostTimeout,
		"host=a,b connect_timeout=7":       7 * time.Second,
		"host=a connect_timeout=0":         connectTimeout,
		"postgres://a,b/?sslmode=disable":  nextHostTimeout,
		"postgres:///?host=/run/pg&port=1": connectTimeout,
	} {
		poolConfig, err := connConfig(config.DSN(dsn), "test")
		require.NoError(t, err, dsn)
		require.Equal(t, want, poolConfig.ConnConfig.ConnectTimeout, dsn)
	}
}

func TestListenConfig(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(pgtest.Empty(t))
	through := config.DSN("host=pooler.invalid port=6432")
	for name, cfg := range map[string]config.Database{
		"as the pool does":   {URL: config.DSN(dsn + "&pool_max_conns=3")},
		"past a pooler":      {URL: through, ListenURL: config.DSN(dsn)},
		"as one for a pool":  {URL: through, ListenURL: config.DSN(dsn + "&pool_max_conns=3")},
		"over another setup": {URL: through, ListenURL: config.DSN(dsn + "&application_name=test")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listen, err := listenConfig(cfg, "test")
			require.NoError(t, err)
			conn, err := pgx.ConnectConfig(t.Context(), listen)
			require.NoError(t, err)
			defer conn.Close(t.Context())
			_, err = conn.Exec(t.Context(), "LISTEN news")
			require.NoError(t, err)
			_, err = conn.Exec(t.Context(), "NOTIFY news, 'arrives'")
			require.NoError(t, err)
			news, err := conn.WaitForNotification(t.Context())
			require.NoError(t, err)
			require.Equal(t, "arrives", news.Payload)
		})
	}
}

// The plans that a sidecar makes while there is no task are those that it has when there
// are many.
func TestPlansOfAnEmptyTableSuitAFullOne(t *testing.T) {
	t.Parallel()
	admin := pgtest.New(t)
	exec := func(sql string) {
		_, err := admin.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	exec("ALTER TABLE sched.river_job SET (autovacuum_enabled = off)")
	exec("VACUUM sched.river_job")
	exec("INSERT INTO sched.worker (id, client_id) VALUES ('w-1', 'c')")
	conn, err := openTestPool(t, pgtest.DSN(admin)).Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()

	const lanes = 4
	work := func(tx pgx.Tx) (done int) {
		q := dbq.New(tx)
		_, err := q.QueueWaiting(t.Context(), dbq.QueueWaitingParams{Queues: []string{"default"}, Max: 10})
		require.NoError(t, err)
		_, err = q.TaskClaimLanes(t.Context(), dbq.TaskClaimLanesParams{
			WorkerID: "w-1", Max: lanes, WindowRows: 100, BudgetMs: 1000, Queues: []string{"default"}, Priorities: []int32{1},
			LaneKinds: []string{""}, FromUs: []int64{0}, FromIds: []int64{0}, ToUs: []int64{math.MaxInt64}, ToIds: []int64{math.MaxInt64},
			Lows: []float32{0}, Highs: []float32{100},
		})
		require.NoError(t, err)
		rows, err := q.TaskClaim(t.Context(), dbq.TaskClaimParams{Queues: []string{"default"}, Max: 100, WorkerID: "w-1"})
		require.NoError(t, err)
		complete := dbq.TaskCompleteParams{WorkerID: "w-1"}
		settle := dbq.TaskSettleParams{}
		for i, row := range rows {
			if i%2 == 0 {
				complete.Numbers, complete.Tids = append(complete.Numbers, int32(i)), append(complete.Tids, row.Tid)
				complete.Ids, complete.AttemptedAts = append(complete.Ids, row.ID), append(complete.AttemptedAts, row.AttemptedAt)
				continue
			}
			settle.Ids, settle.WorkerIds = append(settle.Ids, row.ID), append(settle.WorkerIds, "w-1")
			settle.AttemptedAts, settle.Outcomes = append(settle.AttemptedAts, row.AttemptedAt), append(settle.Outcomes, "retry")
			settle.DelaysMs, settle.Errors, settle.Outputs = append(settle.DelaysMs, 1000), append(settle.Errors, "x"), append(settle.Outputs, nil)
		}
		written, err := q.TaskComplete(t.Context(), complete)
		require.NoError(t, err)
		settled, err := q.TaskSettle(t.Context(), settle)
		require.NoError(t, err)
		return len(written) + len(settled)
	}
	inTx := func(do func(pgx.Tx)) {
		require.NoError(t, pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error { do(tx); return nil }))
	}
	inTx(func(tx pgx.Tx) { require.Zero(t, work(tx)) })
	exec("INSERT INTO sched.river_job (kind, args, queue) SELECT 'k', '{}', 'default' FROM generate_series(1, 5000)")
	inTx(func(tx pgx.Tx) {
		before := scansOfTasks(t, tx)
		require.Equal(t, 100, work(tx))
		require.Equal(t, before[0], scansOfTasks(t, tx)[0], "reads of the whole table")
	})
}

// Completions go to where the claims left the rows, also where the statistics say that
// nothing ever runs, which makes the index by status look cheapest.
func TestCompletionsNeedNoIndex(t *testing.T) {
	t.Parallel()
	admin := pgtest.New(t)
	for _, sql := range []string{
		"INSERT INTO sched.worker (id, client_id) VALUES ('w-1', 'c')",
		`INSERT INTO sched.river_job (kind, args, queue, state, attempt, attempted_at, attempted_by, finalized_at)
			SELECT 'k', '{}', 'default', 'completed', 1, now(), '{w-0}', now() FROM generate_series(1, 20000)`,
		"INSERT INTO sched.river_job (kind, args, queue) SELECT 'k', '{}', 'default' FROM generate_series(1, 500)",
		"ANALYZE sched.river_job",
	} {
		_, err := admin.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	conn, err := openTestPool(t, pgtest.DSN(admin)).Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	rows, err := dbq.New(conn).TaskClaim(t.Context(), dbq.TaskClaimParams{Queues: []string{"default"}, Max: 500, WorkerID: "w-1"})
	require.NoError(t, err)
	complete := dbq.TaskCompleteParams{WorkerID: "w-1"}
	for i, row := range rows {
		complete.Numbers, complete.Tids = append(complete.Numbers, int32(i)), append(complete.Tids, row.Tid)
		complete.Ids, complete.AttemptedAts = append(complete.Ids, row.ID), append(complete.AttemptedAts, row.AttemptedAt)
	}
	require.NoError(t, pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		before := scansOfTasks(t, tx)
		written, err := dbq.New(tx).TaskComplete(t.Context(), complete)
		require.NoError(t, err)
		require.Len(t, written, 500)
		after := scansOfTasks(t, tx)
		require.Equal(t, before, after, "reads of the whole table, and through an index")
		return nil
	}))
}

// scansOfTasks is how often a session has read the table of tasks as a whole and through
// an index, its latest transactions included.
func scansOfTasks(t *testing.T, tx pgx.Tx) (scans [2]int) {
	t.Helper()
	require.NoError(t, tx.QueryRow(t.Context(),
		"SELECT seq_scan, idx_scan FROM pg_stat_xact_all_tables WHERE relid = 'sched.river_job'::regclass").Scan(&scans[0], &scans[1]))
	return scans
}
