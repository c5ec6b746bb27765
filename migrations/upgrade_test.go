package migrations_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/migrations"
)

// firstRelease is the last migration of the schema with contract version 1.
const firstRelease = 9

// lastRelease is the last migration of the schema with contract version 2.
const lastRelease = 21

// lines tells of each line that a logger writes.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- string(bytes.TrimSpace(line))
	return len(line), nil
}

// An application that leaves a transaction open with an enqueue in it holds up
// the upgrade, but the upgrade holds up nobody: it asks, gives way, asks again.
func TestUpgradeGivesWayToOpenTransactions(t *testing.T) {
	t.Parallel()
	pool := pgtest.Empty(t)
	require.NoError(t, migrations.UpTo(t.Context(), pgtest.DSN(pool), firstRelease, noRoles()))
	app := connect(t, pool, "")
	exec(t, app, "SET application_name = 'slow shop'")
	tx := begin(t, app)
	exec(t, tx, "SELECT sched.enqueue('mail')")

	log := make(lines, 100)
	done := make(chan error, 1)
	opts := noRoles()
	opts.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	go func() { done <- migrations.Up(context.WithoutCancel(t.Context()), pgtest.DSN(pool), opts) }()

	require.Contains(t, <-log, "slow shop", "it says for whom it waits")
	for range 5 {
		exec(t, pool, "SELECT sched.enqueue('mail')")
	}
	<-log // still waiting
	require.NoError(t, tx.Commit(t.Context()))
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(time.Minute):
		require.Fail(t, "the upgrade doesn't go on")
	}
	require.NoError(t, migrations.CheckContract(t.Context(), pool))
	require.EqualValues(t, 6, one[int64](t, pool, "SELECT count(*) FROM sched.task"))
}

func TestUpgradeThatWaitsEndsWithItsContext(t *testing.T) {
	t.Parallel()
	pool := pgtest.Empty(t)
	require.NoError(t, migrations.UpTo(t.Context(), pgtest.DSN(pool), firstRelease, noRoles()))
	tx := begin(t, connect(t, pool, ""))
	exec(t, tx, "LOCK TABLE sched.worker IN ACCESS SHARE MODE")

	log := make(lines, 100)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	opts := noRoles()
	opts.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	done := make(chan error, 1)
	go func() { done <- migrations.Up(ctx, pgtest.DSN(pool), opts) }()
	<-log
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	require.ErrorIs(t, migrations.CheckContract(t.Context(), pool), migrations.ErrSchemaTooOld)
}

// An auditor who reads a view in a long transaction holds up the upgrade, but not
// enqueues through it.
func TestUpgradeThatWaitsForAReaderHoldsUpNoEnqueue(t *testing.T) {
	t.Parallel()
	const beforeArchive = 52
	pool := pgtest.Empty(t)
	require.NoError(t, migrations.UpTo(t.Context(), pgtest.DSN(pool), beforeArchive, noRoles()))
	reader := begin(t, connect(t, pool, ""))
	exec(t, reader, "SELECT count(*) FROM sched.task")

	log := make(lines, 100)
	done := make(chan error, 1)
	opts := noRoles()
	opts.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	go func() { done <- migrations.Up(context.WithoutCancel(t.Context()), pgtest.DSN(pool), opts) }()
	<-log // it waits, and will try again and again
	app := connect(t, pool, "")
	exec(t, app, "SET lock_timeout = '100 ms'")
	tries := 0
	for until := time.Now().Add(3 * time.Second); time.Now().Before(until); tries++ {
		exec(t, app, "SELECT sched.enqueue('mail')")
	}
	require.Positive(t, tries)
	require.Empty(t, done)
	require.NoError(t, reader.Rollback(t.Context()))
	require.NoError(t, <-done)
}

// What an older schema allowed for the largest args is raised to the least of now.
func TestUpgradeRaisesALowLimit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ before, after int }{{100, 8192}, {8192, 8192}, {1 << 20, 1 << 20}} {
		pool := pgtest.Empty(t)
		require.NoError(t, migrations.UpTo(t.Context(), pgtest.DSN(pool), lastRelease, noRoles()))
		exec(t, pool, "UPDATE sched.setting SET value = to_jsonb($1::int) WHERE key = 'max_args_bytes'", test.before)
		require.NoError(t, migrations.Up(t.Context(), pgtest.DSN(pool), noRoles()))
		require.Equal(t, test.after, one[int](t, pool, "SELECT value::text::int FROM sched.setting WHERE key = 'max_args_bytes'"))
		exec(t, pool, "SELECT sched.enqueue('mail', to_jsonb(repeat('x', 8000)))")
	}
}

// Enqueues run with the owner's rights. What an upgrade adds must be the owner's
// the moment it is there, or they fail until the grants are made.
func TestUpgradeWithRolesFailsNoEnqueue(t *testing.T) {
	t.Parallel()
	pool, roles := pgtest.Empty(t), randomRoles()
	opts := migrations.Options{Roles: roles}
	require.NoError(t, migrations.UpTo(t.Context(), pgtest.DSN(pool), lastRelease, opts))
	for _, name := range []string{roles.Owner, roles.Sidecar, roles.Producer, roles.Auditor} {
		dropAfter(t, pool, name)
	}
	app := newRole(t, pool, "IN ROLE "+roles.Producer)

	const producers = 4
	stop := make(chan struct{})
	failed := make(chan error, producers)
	for range producers {
		conn := connect(t, pool, app)
		go func() {
			var err error
			for err == nil {
				select {
				case <-stop:
					failed <- nil
					return
				default:
					err = enqueueAll(t.Context(), conn)
				}
			}
			failed <- err
		}()
	}
	// One by one, as if each took long.
	for version := int64(lastRelease + 1); version <= latest(t, pool); version++ {
		require.NoError(t, migrations.UpTo(t.Context(), pgtest.DSN(pool), version, opts))
		enqueued := one[int64](t, pool, "SELECT max(id) FROM sched.river_job")
		require.Eventually(t, func() bool {
			return len(failed) > 0 || one[int64](t, pool, "SELECT max(id) FROM sched.river_job") > enqueued+3*producers
		}, time.Minute, time.Millisecond)
	}
	close(stop)
	for range producers {
		require.NoError(t, <-failed)
	}
	require.Equal(t, []string{roles.Owner}, all[string](t, pool, `
		SELECT DISTINCT pg_get_userbyid(owner)::text FROM (
			SELECT relowner FROM pg_class WHERE relnamespace = 'sched'::regnamespace
			UNION ALL SELECT proowner FROM pg_proc WHERE pronamespace = 'sched'::regnamespace
		) AS o (owner)`))
}

func enqueueAll(ctx context.Context, conn *pgx.Conn) error {
	for _, sql := range []string{
		"SELECT sched.enqueue('mail')", "SELECT sched.enqueue('mail', unique_key => 'k')",
		`SELECT sched.enqueue_many('[{"kind": "mail"}, {"kind": "mail", "unique_key": "m"}]')`,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// What the way back makes again belongs to whom everything belongs.
func TestDowngradeKeepsOwnersAndGrants(t *testing.T) {
	t.Parallel()
	pool, roles := withRoles(t)
	require.NoError(t, migrations.DownTo(t.Context(), pgtest.DSN(pool), lastRelease, migrations.Options{Roles: roles}))
	require.Empty(t, all[string](t, pool, `SELECT oid::regprocedure::text FROM pg_proc
		WHERE pronamespace = 'sched'::regnamespace AND proowner::regrole::text <> $1`, roles.Owner))
	require.Empty(t, all[string](t, pool, `SELECT relname::text FROM pg_class
		WHERE relnamespace = 'sched'::regnamespace AND relowner::regrole::text <> $1`, roles.Owner))
	id := one[int64](t, pool, "SELECT sched.enqueue('mail')")
	conn := connect(t, pool, newRole(t, pool, "IN ROLE "+roles.Auditor))
	require.NotEmpty(t, all[string](t, conn, "SELECT sched.explain($1)", id))
}

// The way back has the functions of the first release, to the letter.
func TestDowngradeRestoresTheFirstRelease(t *testing.T) {
	t.Parallel()
	const functions = `SELECT pg_get_functiondef(oid) || obj_description(oid) FROM pg_proc WHERE pronamespace = 'sched'::regnamespace ORDER BY 1`
	pool := pgtest.Empty(t)
	require.NoError(t, migrations.UpTo(t.Context(), pgtest.DSN(pool), firstRelease, noRoles()))
	before := all[string](t, pool, functions)
	require.NoError(t, migrations.Up(t.Context(), pgtest.DSN(pool), noRoles()))
	exec(t, pool, "INSERT INTO sched.kind (kind, queue) VALUES ('mail', 'q')")
	exec(t, pool, "SELECT sched.enqueue('mail')")
	require.NoError(t, migrations.DownTo(t.Context(), pgtest.DSN(pool), firstRelease, noRoles()))
	require.Equal(t, before, all[string](t, pool, functions))
	exec(t, pool, "SELECT sched.enqueue('mail')")
	require.EqualValues(t, 2, one[int64](t, pool, "SELECT count(*) FROM sched.task"), "tasks stay")
}
