//go:build verify

package postgres_test

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/apt"
	"github.com/sched-sidecar/sched/jobs"
)

// bouncer is a PgBouncer before one server.
type bouncer struct {
	*program
	dsn    string // the database, through it
	launch func() *program
}

// restart ends it at once, and starts it again.
func (b *bouncer) restart(t *testing.T) {
	t.Helper()
	b.signal(syscall.SIGTERM) // not SIGINT, which would wait for its clients
	b.awaitExit(t, soon)
	b.program = b.launch()
}

// startBouncer starts PgBouncer before the server that dsn leads to, with more
// settings on top of transaction mode.
func startBouncer(t *testing.T, dsn string, more ...string) *bouncer {
	t.Helper()
	binary := bouncerBinary(t)
	server, err := pgconn.ParseConfig(dsn)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)

	dir := serverDir(t)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		give(t, path)
		return path
	}
	users := write("users.txt", fmt.Sprintf("%q %q\n", server.User, server.Password))
	config := write("pgbouncer.ini", strings.Join(append([]string{
		"[databases]",
		fmt.Sprintf("* = host=%s port=%d", server.Host, server.Port),
		"[pgbouncer]",
		"listen_addr = 127.0.0.1", "listen_port = " + port, "unix_socket_dir =",
		"auth_type = scram-sha-256", "auth_file = " + users,
		"pool_mode = transaction", "default_pool_size = 6", "max_client_conn = 200",
	}, more...), "\n")+"\n")
	b := &bouncer{launch: func() *program {
		cmd := exec.Command(binary, config)
		cmd.Dir = dir
		unprivileged(t, cmd)
		return launch(t, cmd)
	}}
	b.program = b.launch()
	through := url.URL{
		Scheme: "postgres", User: url.UserPassword(server.User, server.Password), Host: address,
		Path: "/" + server.Database, RawQuery: "sslmode=disable",
	}
	b.dsn = through.String()
	eventually(t, soon, func() bool {
		conn, err := pgx.Connect(t.Context(), b.dsn)
		return err == nil && conn.Close(t.Context()) == nil || b.hasExited()
	}, func() string { return b.log.String() })
	require.False(t, b.hasExited(), b.log.String())
	return b
}

// bouncerBinary finds PgBouncer, or installs Debian's.
func bouncerBinary(t *testing.T) string {
	t.Helper()
	find := func() string {
		for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
			if path, err := exec.LookPath(name); err == nil {
				return path
			}
		}
		return ""
	}
	if path := find(); path != "" {
		return path
	}
	if !apt.Available() {
		t.Skip("there is no PgBouncer on this machine: install pgbouncer (root on Debian: make verify does it)")
	}
	t.Log("there is no PgBouncer on this machine: installing pgbouncer with apt-get; its package may also start one on port 6432")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	require.NoError(t, apt.Install(ctx, "pgbouncer"))
	return find()
}

// PgBouncer in transaction mode, where no session is the client's own.

func TestVerifyPgBouncerEnqueue(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := startBouncer(t, s.server.DSN())
	for _, mode := range []string{"simple_protocol", "exec", "cache_describe"} {
		t.Run("pgx "+mode, func(t *testing.T) {
			t.Parallel()
			dsn := b.dsn + "&default_query_exec_mode=" + mode
			// Several clients take turns on the sessions.
			for range 3 {
				requireEnqueues(t, open(t, dsn))
			}
		})
	}
	// It asks twice, and only a transaction keeps it on one session.
	t.Run("pgx describe_exec", func(t *testing.T) {
		t.Parallel()
		db := open(t, b.dsn+"&default_query_exec_mode=describe_exec")
		for range 20 {
			tx, err := db.Begin(t.Context())
			require.NoError(t, err)
			id, err := jobs.EnqueueTx(t.Context(), tx, jobs.Raw("go", []byte(`{"n": 1}`)))
			require.NoError(t, err)
			require.NoError(t, tx.Commit(t.Context()))
			require.Equal(t, "available", statusOf(t, s.db, id))
		}
	})
	t.Run("SQL API", func(t *testing.T) {
		t.Parallel()
		requireSQLAPI(t, open(t, b.dsn+"&default_query_exec_mode=simple_protocol"))
	})
	t.Run("database/sql", func(t *testing.T) {
		t.Parallel()
		db, err := sql.Open("pgx", b.dsn+"&default_query_exec_mode=exec")
		require.NoError(t, err)
		defer db.Close()
		id, err := jobs.Enqueue(t.Context(), jobs.SQL(db), jobs.Raw("sql", []byte(`{"n": 1}`)))
		require.NoError(t, err)
		require.Equal(t, "available", statusOf(t, s.db, id))
	})
	t.Run("psql", func(t *testing.T) {
		t.Parallel()
		psql, err := exec.LookPath("psql")
		if err != nil {
			t.Skip("there is no psql on this machine: ", err)
		}
		cmd := exec.CommandContext(t.Context(), psql, b.dsn, "-XAtq", "-c", "BEGIN", "-c", `SELECT sched.enqueue('psql', '{"n": 1}')`, "-c", "COMMIT")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		var by, app string
		require.NoError(t, s.db.QueryRow(t.Context(), "SELECT enqueued_by, enqueued_app FROM sched.task WHERE id = $1::text::bigint", strings.TrimSpace(string(out))).Scan(&by, &app))
		require.Equal(t, []string{"postgres", "psql"}, []string{by, app})
	})
	t.Run("sched", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "fleet.yaml")
		_, exported := sched(t, "export", "--dsn", s.server.DSN())
		require.NoError(t, os.WriteFile(file, []byte(exported), 0o600))
		for range 3 {
			for _, command := range [][]string{
				{"enqueue", "cli"}, {"tasks", "list"}, {"explain", "1"}, {"workers"}, {"queues"}, {"batches"}, {"doctor"}, {"apply", "-f", file},
			} {
				status, out := sched(t, append(command, "--dsn", b.dsn)...)
				// Without a sidecar doctor has a complaint.
				require.True(t, status == 0 || command[0] == "doctor", "%v: %s", command, out)
				require.NotContains(t, out, "prepared statement")
				if command[0] == "doctor" {
					require.Contains(t, out, "a pooler in transaction mode answers")
				}
			}
		}
	})
}

// requireEnqueues enqueues with the Go API, alone and in a transaction.
func requireEnqueues(t *testing.T, db database) {
	t.Helper()
	args := jobs.Raw("go", []byte(`{"text": "grüße", "n": [1, null]}`))
	opts := []jobs.Option{
		jobs.Queue("go"), jobs.Priority(2), jobs.Selector(map[string]string{"gpu": "yes"}),
		jobs.Timeout(time.Minute), jobs.Batch("b"), jobs.Headers(map[string]string{"a": "b"}), jobs.Delay(time.Minute),
	}
	id, err := jobs.Enqueue(t.Context(), db, args, opts...)
	require.NoError(t, err)
	require.Equal(t, "scheduled", statusOf(t, db, id))
	tx, err := db.Begin(t.Context())
	require.NoError(t, err)
	undone, err := jobs.EnqueueTx(t.Context(), tx, args)
	require.NoError(t, err)
	require.NoError(t, tx.Rollback(t.Context()))
	require.Zero(t, one[int](t, db, "SELECT count(*) FROM sched.task WHERE id = $1::bigint", undone))
	ids, err := jobs.EnqueueMany(t.Context(), db, []jobs.Task{{Args: args}, {Args: args, Options: opts}})
	require.NoError(t, err)
	require.Len(t, ids, 2)
}

// Through the pooler, with a listener past it.
func TestVerifyPgBouncerSidecar(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := startBouncer(t, s.server.DSN())
	createEffects(t, s.db)
	side := startSidecar(t, b.dsn, s.app.url, settings{setListen: s.server.DSN()})
	side.awaitMetric(t, "sched_listening", 1, soon)
	require.Contains(t, side.log.String(), "leads through a connection pooler")
	require.Contains(t, side.log.String(), "cache describe")
	begun := time.Now()
	s.app.await(t, enqueue(t, s.db, "woken"), 1, soon)
	t.Logf("woken past the pooler within %s", time.Since(begun))
	side.stop(t)
	requireSidecars(t, s.db, b.dsn, settings{setListen: s.server.DSN()})
	requireSharedSessions(t, b)
}

// Without a way past it: the sidecar says so, and polls.
func TestVerifyPgBouncerSidecarPolls(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := startBouncer(t, s.server.DSN())
	createEffects(t, s.db)
	side := startSidecar(t, b.dsn, s.app.url, nil)
	eventually(t, soon, func() bool { return strings.Contains(side.log.String(), "database.listen_url") },
		func() string { return "it doesn't say that it only polls" })
	require.Zero(t, side.metric(t, "sched_listening"))
	begun := time.Now()
	c := s.app.await(t, enqueue(t, s.db, "polled"), 1, soon)
	t.Logf("polled within %s", c.began.Sub(begun))
	require.Less(t, c.began.Sub(begun), 3*time.Second)
	side.stop(t)
	requireSidecars(t, s.db, b.dsn, nil)
	require.Less(t, strings.Count(b.log.String(), "got packet 'A' from server when not linked"), 20,
		"sessions of the pooler were left listening to every enqueue")
	requireSharedSessions(t, b)
}

// Both what is before and what is behind the pooler's port goes away and comes back.
func TestVerifyPgBouncerHeals(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	// Its default is not to look again for 15 s after a login that failed.
	b := startBouncer(t, s.server.DSN(), "server_login_retry = 1")
	side := startSidecar(t, b.dsn, s.app.url, settings{setListen: s.server.DSN()})
	side.awaitMetric(t, "sched_listening", 1, soon)
	for name, restart := range map[string]func(){
		"Postgres":  func() { require.NoError(t, s.server.Restart(t.Context())) },
		"PgBouncer": func() { b.restart(t) },
	} {
		restart()
		back := time.Now()
		took := s.app.await(t, s.enqueueAnyway(t, "enqueue('after')"), 1, soon).began.Sub(back)
		t.Logf("after a restart of %s: next task within %s", name, took)
		require.Less(t, took, healed)
	}
}

// requireSharedSessions looks at the pooler's sessions: nobody left anything.
func requireSharedSessions(t *testing.T, b *bouncer) {
	t.Helper()
	var conns []*pgx.Conn
	for range 5 {
		conn, err := pgx.Connect(t.Context(), b.dsn+"&default_query_exec_mode=simple_protocol")
		require.NoError(t, err)
		defer conn.Close(t.Context())
		execute(t, conn, "BEGIN") // so that each has another session
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		require.Equal(t, `"$user", public`, one[string](t, conn, "SHOW search_path"))
		require.Equal(t, "0", one[string](t, conn, "SHOW idle_in_transaction_session_timeout"))
		require.Empty(t, all[string](t, conn, "SELECT name FROM pg_prepared_statements"))
		// A sidecar that finds out whether it hears may leave the word for that, which
		// is said once in a minute at most.
		require.Empty(t, all[string](t, conn, "SELECT c FROM pg_listening_channels() AS c WHERE c <> 'sched.listening'"))
		require.Zero(t, one[int](t, conn, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"))
	}
}

// A migration would leave its settings in sessions that are others'.
func TestVerifyPgBouncerMigration(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := startBouncer(t, s.server.DSN())
	for _, command := range []string{"up", "status", "version"} {
		status, out := sched(t, "migrate", command, "--dsn", b.dsn)
		require.NotZero(t, status)
		require.Contains(t, out, "pooler in transaction mode")
		require.NotContains(t, out, "topsecret")
	}
	requireSharedSessions(t, b)

	session := startBouncer(t, s.server.DSN(), "pool_mode = session")
	status, out := sched(t, "migrate", "up", "--dsn", session.dsn)
	require.Zero(t, status, out)
	side := startSidecar(t, session.dsn, s.app.url, settings{setPool: "4"})
	side.awaitMetric(t, "sched_listening", 1, soon)
}
