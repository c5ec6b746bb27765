package protocols_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/fleettest"
	"github.com/sched-sidecar/sched/internal/pgtest"
)

// patience bounds what should take seconds, on a machine that does much else.
const patience = 60 * time.Second

// fleet is a database, an app and the means to start sidecars beside it.
type fleet struct {
	protocol string
	db       *pgxpool.Pool
	dsn      string
	dir      string
	app      *fleettest.Sidecar // nil over exec
}

// overEach runs a test over each protocol.
func overEach(t *testing.T, test func(*testing.T, *fleet)) {
	t.Helper()
	for _, protocol := range []string{"http", "grpc", "exec"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			f := &fleet{protocol: protocol, db: pgtest.New(t)}
			f.dsn = pgtest.DSN(f.db)
			var err error
			f.dir, err = os.MkdirTemp("", "p") //nolint:usetesting // t.TempDir is too long for a socket's path
			require.NoError(t, err)
			t.Cleanup(func() { _ = os.RemoveAll(f.dir) })
			_, err = f.db.Exec(t.Context(), `
				CREATE TABLE public.seen (task_id bigint, attempt integer, lease text);
				CREATE TABLE public.effect (task_id bigint PRIMARY KEY)`)
			require.NoError(t, err)
			f.startApp(t)
			test(t, f)
		})
	}
}

func (f *fleet) socket(name string) string { return "unix://" + filepath.Join(f.dir, name) }

// startApp starts the app, or another after one that died. Over grpc it comes
// back by itself whenever a sidecar does.
func (f *fleet) startApp(t *testing.T) {
	t.Helper()
	if f.protocol == "exec" {
		return
	}
	self, err := os.Executable()
	require.NoError(t, err)
	f.app = fleettest.Exec(t, self, fleettest.Settings{envProtocol: f.protocol, envAddress: f.socket("s"), envDSN: f.dsn})
}

// start runs a sidecar beside the app.
func (f *fleet) start(t *testing.T, set fleettest.Settings) *fleettest.Sidecar {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	set = fleettest.Quick().Plus(fleettest.Settings{
		"SCHED_APP_PROTOCOL": f.protocol, "SCHED_APP_LISTEN": f.socket("s"), "SCHED_APP_COMMAND": self,
		envProtocol: f.protocol, envDSN: f.dsn, // a command's
	}).Plus(set)
	return fleettest.Start(t, sidecarProgram, f.dsn, f.socket("s"), set)
}

// enqueue adds a task that tells the app to do something; more are arguments of
// sched.enqueue, as SQL.
func (f *fleet) enqueue(t *testing.T, do, more string) (id int64) {
	t.Helper()
	require.NoError(t, f.db.QueryRow(t.Context(), "SELECT sched.enqueue($1, jsonb_build_object('do', $2::text)"+more+")", kind, do).Scan(&id))
	return id
}

// row is what sched.task says of a task.
type row struct {
	status, problem, output string
	attempt, lost, snoozes  int
}

func (f *fleet) row(t *testing.T, id int64) (r row) {
	t.Helper()
	require.NoError(t, f.db.QueryRow(t.Context(), `
		SELECT status::text, coalesce(error::text, ''), coalesce(output::text, ''), attempt, coalesce(lost, 0)::int, coalesce(snoozes, 0)::int
		FROM sched.task WHERE id = $1`, id).Scan(&r.status, &r.problem, &r.output, &r.attempt, &r.lost, &r.snoozes))
	return r
}

// await waits for a task's status.
func (f *fleet) await(t *testing.T, id int64, status string) (r row) {
	t.Helper()
	fleettest.Eventually(t, patience, func() bool {
		r = f.row(t, id)
		return r.status == status
	}, func() string { return fmt.Sprintf("wanted %s: %+v", status, r) })
	return r
}

// awaitSeen waits until the app has seen so many attempts of a task.
func (f *fleet) awaitSeen(t *testing.T, id int64, n int) {
	t.Helper()
	got := 0
	fleettest.Eventually(t, patience, func() bool {
		got = f.count(t, "public.seen WHERE task_id = $1", id)
		return got >= n
	}, func() string { return fmt.Sprintf("the app saw %d attempts of task %d, not %d", got, id, n) })
}

func (f *fleet) count(t *testing.T, from string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, f.db.QueryRow(t.Context(), "SELECT count(*) FROM "+from, args...).Scan(&n))
	return n
}
