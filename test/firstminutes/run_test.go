package firstminutes_test

import (
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/devpg"
	"github.com/sched-sidecar/sched/internal/fleettest"
	"github.com/sched-sidecar/sched/migrations"
)

// database is a migrated one of the test's own.
func database(t *testing.T) (dsn string) {
	t.Helper()
	dsn = emptyDatabase(t)
	require.NoError(t, migrations.Up(t.Context(), dsn, migrations.Options{}))
	return dsn
}

func emptyDatabase(t *testing.T) (dsn string) {
	t.Helper()
	server, err := devpg.Start(t.Context(), devpg.Options{Fast: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	return server.DSN()
}

// sidecar starts `sched-sidecar run` with flags and a command.
func sidecar(t *testing.T, dsn, appAddr string, args ...string) *program {
	t.Helper()
	return launch(t, func(cmd *exec.Cmd) {
		cmd.Env = append(cmd.Env, "SCHED_DATABASE_URL="+dsn, "SCHED_ADMIN_ADDR=127.0.0.1:0", "SCHED_APP_URL=http://"+appAddr)
	}, append([]string{filepath.Join(binDir, "sched-sidecar"), "run"}, args...)...)
}

func TestRunBesideACommand(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	shell := func(t *testing.T, script string) *program {
		t.Helper()
		p := sidecar(t, dsn, fleettest.FreeAddress(t), "--", "/bin/sh", "-c", script)
		awaitFile(t, filepath.Join(p.cmd.Dir, "up"))
		return p
	}

	t.Run("SIGTERM", func(t *testing.T) {
		t.Parallel()
		p := shell(t, `trap 'echo good''bye; exit 6' TERM; sleep 600 & echo $PORT >up; while :; do sleep 0.05; done`)
		p.await(t, "sidecar ready")
		p.signal(syscall.SIGTERM)
		require.Equal(t, 6, p.exit(t))
		drained, bye := strings.Index(p.out.String(), "msg=stopped"), strings.Index(p.out.String(), "bye")
		require.Positive(t, drained)
		require.Greater(t, bye, drained, "the sidecar drains before the app is asked to end")
		p.requireNothingLeft(t)
	})
	t.Run("SIGTERM that the app dies of", func(t *testing.T) {
		t.Parallel()
		p := shell(t, `echo >up; while :; do sleep 0.05; done`)
		p.await(t, "sidecar ready")
		p.signal(syscall.SIGTERM)
		require.Equal(t, 143, p.exit(t))
		p.requireNothingLeft(t)
	})
	t.Run("SIGHUP", func(t *testing.T) {
		t.Parallel()
		if signal.Ignored(syscall.SIGHUP) {
			t.Skip("SIGHUP is ignored here, as under nohup, and stays so")
		}
		p := shell(t, `trap 'echo again; exit 8' HUP; echo >up; while :; do sleep 0.05; done`)
		p.signal(syscall.SIGHUP)
		require.Equal(t, 8, p.exit(t), "it's the app's to take")
		require.Contains(t, p.out.String(), "again")
	})
	t.Run("SIGKILL", func(t *testing.T) {
		t.Parallel()
		p := shell(t, stubbornApp)
		p.requireTree(t, "sched-sidecar", "sh")
		p.signal(syscall.SIGKILL)
		require.Equal(t, 137, p.exit(t))
		p.requireNothingLeft(t)
	})
	t.Run("the app ends", func(t *testing.T) {
		t.Parallel()
		p := shell(t, `echo >up; exit 5`)
		require.Equal(t, 5, p.exit(t))
		p.requireNothingLeft(t)
	})
}

func TestRunUntilEmpty(t *testing.T) {
	t.Parallel()
	need(t, "node")
	dsn := database(t)
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	enqueue := func(call string) (id int64) {
		require.NoError(t, conn.QueryRow(t.Context(), "select sched.enqueue("+call+")").Scan(&id))
		return id
	}
	app := filepath.Join(root(t), "examples", "hello", "app.js")

	for range 20 {
		enqueue(`'hello', '{"name": "Ann"}'`)
	}
	p := sidecar(t, dsn, fleettest.FreeAddress(t), "--until-empty", "--", "node", app)
	require.Zero(t, p.exit(t))
	p.requireNothingLeft(t)
	var completed int
	require.NoError(t, conn.QueryRow(t.Context(), "select count(*) from sched.task where status = 'completed'").Scan(&completed))
	require.Equal(t, 20, completed)

	enqueue(`'hello', 'null', max_attempts => 1`)
	p = sidecar(t, dsn, fleettest.FreeAddress(t), "--until-empty", "--", "node", app)
	require.Equal(t, 1, p.exit(t), "a task was discarded")
	require.Contains(t, p.out.String(), "was discarded")

	enqueue(`'hello'`)
	p = sidecar(t, dsn, fleettest.FreeAddress(t), "--until-empty", "--kinds=hello") // nobody's app
	p.await(t, "sidecar ready")
	p.signal(syscall.SIGTERM)
	require.Equal(t, 143, p.exit(t), "stopped before it was done")
}
