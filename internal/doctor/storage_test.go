package doctor

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/devpg"
	"github.com/sched-sidecar/sched/internal/pgtest"
)

// definitions reads the indexes of sched.river_job as Postgres writes them.
func definitions(t *testing.T, pool *pgxpool.Pool) map[string]string {
	t.Helper()
	// No schema is in the search path, so that all names come qualified.
	rows, err := pool.Query(t.Context(), `SELECT indexname::text, replace(indexdef, 'CREATE ', '') FROM pg_indexes,
		set_config('search_path', 'pg_catalog', false) WHERE schemaname = 'sched' AND tablename = 'river_job'`)
	require.NoError(t, err)
	there := map[string]string{}
	var name, definition string
	_, err = pgx.ForEachRow(rows, []any{&name, &definition}, func() error { there[name] = definition; return nil })
	require.NoError(t, err)
	return there
}

func TestIndexes_AreThoseOfTheMigrations(t *testing.T) {
	t.Parallel()
	require.Equal(t, indexes(), definitions(t, pgtest.New(t)), "the migrations changed the indexes: change indexes() too")
}

func TestIndexes(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	dsn := pgtest.DSN(pool)
	healthy(t, look(t, dsn, "indexes", Options{}), "there and valid")

	exec(t, pool, `UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'sched.sched_river_job_due'::regclass`)
	finding := ill(t, look(t, dsn, "indexes", Options{}), Failed)
	require.Contains(t, finding.Message, "sched_river_job_due is not valid")
	exec(t, pool, finding.Advice)
	healthy(t, look(t, dsn, "indexes", Options{}), "there and valid")

	exec(t, pool, `CREATE INDEX river_job_args_index ON sched.river_job USING gin (args)`)
	finding = ill(t, look(t, dsn, "indexes", Options{}), Warning)
	require.Contains(t, finding.Message, "River's index sched.river_job_args_index is back")
	exec(t, pool, finding.Advice)
	healthy(t, look(t, dsn, "indexes", Options{}), "there and valid")

	exec(t, pool, `CREATE INDEX half_built ON sched.river_job (kind)`)
	healthy(t, look(t, dsn, "indexes", Options{}), "there and valid") // an index of the user's own is theirs
	exec(t, pool, `UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'sched.half_built'::regclass`)
	require.Contains(t, ill(t, look(t, dsn, "indexes", Options{}), Warning).Advice, "DROP INDEX CONCURRENTLY sched.half_built")
}

// The advice for a missing index makes exactly that index.
func TestIndexes_Missing(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for name := range indexes() {
		if name == "river_job_pkey" {
			continue // nobody loses a primary key by mistake
		}
		exec(t, pool, `DROP INDEX sched.`+name)
		finding := ill(t, look(t, pgtest.DSN(pool), "indexes", Options{}), Failed)
		require.Contains(t, finding.Message, name+" is missing")
		require.Contains(t, finding.Advice, "CONCURRENTLY")
		exec(t, pool, finding.Advice)
	}
	require.Equal(t, indexes(), definitions(t, pool))
}

func TestAutovacuum(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	dsn := pgtest.DSN(pool)
	healthy(t, look(t, dsn, "autovacuum", Options{}), "autovacuum is on")

	exec(t, pool, `ALTER TABLE sched.river_job SET (autovacuum_enabled = false)`)
	finding := ill(t, look(t, dsn, "autovacuum", Options{}), Failed)
	require.Contains(t, finding.Message, "off for sched.river_job")
	exec(t, pool, finding.Advice)
	healthy(t, look(t, dsn, "autovacuum", Options{}), "autovacuum is on")
}

func TestAutovacuum_DeadRows(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool, `SELECT sched.enqueue('greet') FROM generate_series(1, 20)`)
	exec(t, pool, `DELETE FROM sched.river_job`)
	// Statistics arrive when the session that made them has been idle for a while.
	var findings []Finding
	require.Eventually(t, func() bool {
		findings = look(t, pgtest.DSN(pool), "autovacuum", Options{ManyDeadRows: 20})
		return findings[0].Level != OK
	}, patience, tick)
	require.Contains(t, ill(t, findings, Warning).Message, "20 dead rows to 0 live ones; last vacuum: never")
}

// A server of its own, for what belongs to the whole server.
func TestAutovacuum_OffAndPreparedTransaction(t *testing.T) {
	t.Parallel()
	server, err := devpg.Start(t.Context(), devpg.Options{Fast: true, Settings: map[string]string{"autovacuum": "off", "max_prepared_transactions": "5"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	pool := pgtest.NewOn(t, server)
	dsn := pgtest.DSN(pool)

	finding := ill(t, look(t, dsn, "autovacuum", Options{}), Failed)
	require.Contains(t, finding.Message, "autovacuum is off")
	for statement := range strings.SplitSeq(finding.Advice, "; ") {
		exec(t, pool, statement)
	}
	require.Eventually(t, func() bool { return look(t, dsn, "autovacuum", Options{})[0].Level == OK }, patience, tick)

	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	for _, statement := range []string{`BEGIN`, `CREATE TABLE forgotten ()`, `PREPARE TRANSACTION 'forgotten'`} {
		_, err := conn.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	finding = ill(t, look(t, dsn, "transactions", Options{OldTransaction: time.Nanosecond}), Warning)
	require.Contains(t, finding.Message, "prepared transaction 'forgotten' of postgres")
	_, err = conn.Exec(t.Context(), `ROLLBACK PREPARED 'forgotten'`)
	require.NoError(t, err)
}

func TestTransactions(t *testing.T) {
	t.Parallel()
	pool := pgtest.Empty(t)
	dsn := pgtest.DSN(pool)
	healthy(t, look(t, dsn, "transactions", Options{}), "no transaction is older than 5m0s")

	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), `SET LOCAL application_name = 'forgetful'`)
	require.NoError(t, err)
	finding := ill(t, look(t, dsn, "transactions", Options{OldTransaction: time.Nanosecond}), Warning)
	require.Contains(t, finding.Message, "(forgetful)")
	require.Contains(t, finding.Message, "idle in transaction")
	require.NoError(t, tx.Rollback(t.Context()))
	require.Eventually(t, func() bool {
		return look(t, dsn, "transactions", Options{OldTransaction: time.Nanosecond})[0].Level == OK
	}, patience, tick)
}

// A snapshot keeps dead rows by the transactions since, however short it has been open.
func TestTransactions_OldXmin(t *testing.T) {
	t.Parallel()
	pool := pgtest.Empty(t)
	dsn := pgtest.DSN(pool)
	tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), `SET LOCAL application_name = 'report'`)
	require.NoError(t, err)
	var one int
	require.NoError(t, tx.QueryRow(t.Context(), `SELECT 1`).Scan(&one)) // takes the snapshot
	for range 20 {
		exec(t, pool, `SELECT pg_current_xact_id()`)
	}
	finding := ill(t, look(t, dsn, "transactions", Options{OldXmin: 10}), Warning)
	require.Contains(t, finding.Message, "(report) keeps the rows of the last ")
	require.Contains(t, finding.Advice, "pg_terminate_backend")
	healthy(t, look(t, dsn, "transactions", Options{}), "the oldest that counts is ")
}
