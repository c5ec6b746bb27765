//go:build verify

package mainjob_test

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/migrations"
)

// The release before this one: the last commit whose schema has contract version
// migrations.Contract - 1, and the last migration that it has. They move with
// each contract version.
const (
	previousRelease   = "222c74e5a7ca47ee93abe76c25db1fb84722af92"
	previousMigration = 21
)

// A fleet changes release with tasks flowing: the schema first, then the sidecars
// one after the other, and all the way back again.
func TestVerifyUpgradeUnderLoad(t *testing.T) {
	t.Parallel()
	previous := buildPrevious(t)
	u := newUpgrade(t, previous)
	old := []*sidecar{u.startOld(), u.startOld()}
	u.awaitProgress("on the old schema")
	u.requireRefused(sidecarBinary, u.newDSN, "too old", "sched migrate up")

	require.NoError(t, migrations.Up(t.Context(), u.dsn, migrations.Options{}))
	u.awaitProgress("old sidecars on the new schema")
	u.requireRunning(old)
	_, err := u.db.Exec(t.Context(), "INSERT INTO sched.kind (kind, queue, max_attempts, timeout, retry_base) VALUES ('load', 'bulk', 20, '20 seconds', '50 milliseconds')")
	require.NoError(t, err)
	u.awaitProgress("old sidecars and a kind with defaults")

	next := []*sidecar{u.startNew(), u.startNew()}
	u.awaitWorkers(append(old, next...))
	u.requireRunning(old)
	for _, s := range old {
		s.signal(syscall.SIGTERM)
		require.Zero(t, s.awaitExit(t, leaderless), "an old sidecar drains: %s", s.log.tail(20))
		u.awaitProgress("while the old ones go")
	}
	u.awaitWorkers(next)
	// The sidecars alone go back: the old release starts on the new schema, too.
	again := u.startOld()
	u.awaitWorkers(append(next, again))
	again.signal(syscall.SIGTERM)
	require.Zero(t, again.awaitExit(t, leaderless), again.log.tail(20))

	u.stopLoad()
	awaitDrained(t, u.db, "load", leaderless+time.Minute)
	u.requireEffectsOnce(u.enqueued())

	// And back: the sidecars first, then the schema.
	for _, s := range next {
		s.signal(syscall.SIGTERM)
		require.Zero(t, s.awaitExit(t, leaderless))
	}
	u.ids = append(u.ids, enqueueMany(t, u.db, "load", 100)...)
	require.NoError(t, migrations.DownTo(t.Context(), u.dsn, previousMigration, migrations.Options{}))
	u.startOld()
	awaitDrained(t, u.db, "load", leaderless+time.Minute)
	u.requireEffectsOnce(u.enqueued())
}

// This release's sidecars will start on the schema of the next one, and on none
// after that.
func TestVerifySidecarStartsOnTheNextSchema(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	for _, version := range []int{migrations.Contract, migrations.Contract + 1} {
		_, err := f.db.Exec(t.Context(), "UPDATE sched.contract SET version = $1", version)
		require.NoError(t, err)
		f.start(newApp(t, nil), nil)
		awaitStatus(t, f.db, enqueue(t, f.db, "any"), "completed", soon)
	}
	_, err := f.db.Exec(t.Context(), "UPDATE sched.contract SET version = $1", migrations.Contract+2)
	require.NoError(t, err)
	(&upgrade{fleet: f}).requireRefused(sidecarBinary, f.dsn, "too new", "upgrade this program")
}

// release is the programs of a release.
type release struct{ sched, sidecar string }

// buildPrevious builds the release before this one from the repository. An
// archive of the commit leaves nothing behind there, even when the test is killed.
func buildPrevious(t *testing.T) release {
	t.Helper()
	if err := exec.Command("git", "cat-file", "-e", previousRelease+"^{commit}").Run(); err != nil {
		t.Skipf("this clone doesn't have commit %s (git fetch --unshallow gets it): %v", previousRelease, err)
	}
	top, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	require.NoError(t, err)
	dir := t.TempDir()
	for _, command := range [][]string{
		{"git", "-C", strings.TrimSpace(string(top)), "archive", "--format=tar", "--output=" + filepath.Join(dir, "source.tar"), previousRelease},
		{"tar", "-xf", "source.tar"},
		{"go", "build", "-buildvcs=false", "-o", "bin/", "./cmd/sched", "./cmd/sched-sidecar"},
	} {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoErrorf(t, err, "%v: %s", command, out)
	}
	return release{sched: filepath.Join(dir, "bin", "sched"), sidecar: filepath.Join(dir, "bin", "sched-sidecar")}
}

// upgrade is a fleet under load whose sidecars are of two releases.
type upgrade struct {
	*fleet
	previous release
	app      *app
	newDSN   string // as a login role that has no more than a sidecar's rights

	stop      func()
	producers sync.WaitGroup
	mu        sync.Mutex
	ids       []int64
	failed    []error
}

func newUpgrade(t *testing.T, previous release) *upgrade {
	t.Helper()
	server := pgtest.Server(t)
	db, err := pgxpool.New(context.Background(), server.DSN())
	require.NoError(t, err)
	t.Cleanup(db.Close)
	u := &upgrade{fleet: &fleet{t: t, db: db, dsn: server.DSN()}, previous: previous}
	out, err := exec.Command(previous.sched, "migrate", "up", "--dsn", u.dsn).CombinedOutput()
	require.NoErrorf(t, err, "%s", out)
	u.createEffects()
	for _, role := range []string{"sidecar", "producer"} {
		_, err = db.Exec(t.Context(), fmt.Sprintf("CREATE ROLE %s_login LOGIN IN ROLE sched_%[1]s", role))
		require.NoError(t, err)
	}
	u.newDSN = as(t, server.SocketDSN("postgres"), "sidecar_login")
	u.app = newApp(t, u.answer)
	u.produce(as(t, server.SocketDSN("postgres"), "producer_login"))
	return u
}

// as is a connection string with another login role; over the socket it needs no
// password.
func as(t *testing.T, dsn, role string) string {
	t.Helper()
	cfg, err := pgx.ParseConfig(dsn)
	require.NoError(t, err)
	return fmt.Sprintf("host=%s port=%d user=%s dbname=%s", cfg.Host, cfg.Port, role, cfg.Database)
}

// answer has every way to end an attempt in it, on the way to the one effect.
func (u *upgrade) answer(c *call) answer {
	work(c, 20*time.Millisecond)
	switch {
	case c.attempt == 1 && c.id%7 == 0 && len(u.app.callsOf(c.id)) == 1:
		return answer{status: http.StatusInternalServerError, body: "try again"}
	case c.id%11 == 0 && len(u.app.callsOf(c.id)) == 1:
		return answer{status: http.StatusServiceUnavailable, header: map[string]string{"Retry-After": "1"}}
	default:
		return u.effectOnce(c)
	}
}

// produce enqueues all the time, one by one and in bulk, as applications do: with
// the rights of a producer, on connections that outlive the upgrade. None of it
// may fail.
func (u *upgrade) produce(dsn string) {
	u.t.Helper()
	ctx, cancel := context.WithCancel(u.t.Context())
	u.stop = cancel
	u.t.Cleanup(u.stopLoad)
	for _, sql := range []string{
		"SELECT sched.enqueue('load')",
		`SELECT sched.enqueue_many('[{"kind": "load"}, {"kind": "load", "priority": 2}, {"kind": "load", "queue": "other"}]')`,
	} {
		conn, err := pgx.Connect(u.t.Context(), dsn)
		require.NoError(u.t, err)
		u.producers.Go(func() {
			defer conn.Close(context.WithoutCancel(ctx))
			tick := time.NewTicker(30 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				// Whether an enqueue that is cut off was committed, nobody could tell.
				rows, err := conn.Query(context.WithoutCancel(ctx), sql)
				var ids []int64
				if err == nil {
					ids, err = pgx.CollectRows(rows, pgx.RowTo[int64])
				}
				u.mu.Lock()
				u.ids = append(u.ids, ids...)
				if err != nil {
					u.failed = append(u.failed, err)
				}
				u.mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
}

func (u *upgrade) stopLoad() {
	u.stop()
	u.producers.Wait()
}

func (u *upgrade) enqueued() []int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]int64(nil), u.ids...)
}

// awaitProgress waits until two hundred more tasks have been enqueued and as many
// had their effect.
func (u *upgrade) awaitProgress(stage string) {
	u.t.Helper()
	const step = 200
	effects, enqueued := u.countEffects(), len(u.enqueued())
	eventually(u.t, time.Minute, func() bool {
		u.requireNoFailure(stage)
		return u.countEffects() >= effects+step && len(u.enqueued()) >= enqueued+step
	}, func() string {
		return fmt.Sprintf("%s: %d effects, %d enqueued, then %d and %d", stage, effects, enqueued, u.countEffects(), len(u.enqueued()))
	})
}

func (u *upgrade) requireNoFailure(stage string) {
	u.t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	require.Empty(u.t, u.failed, stage)
}

// awaitWorkers waits until each of the sidecars has completed tasks from now on.
func (u *upgrade) awaitWorkers(sidecars []*sidecar) {
	u.t.Helper()
	u.requireRunning(sidecars)
	var since time.Time
	require.NoError(u.t, u.db.QueryRow(u.t.Context(), "SELECT clock_timestamp()").Scan(&since))
	for _, s := range sidecars {
		eventually(u.t, time.Minute, func() bool {
			u.requireNoFailure("waiting for every worker")
			var n int
			require.NoError(u.t, u.db.QueryRow(u.t.Context(), `SELECT count(*) FROM sched.task
				WHERE status = 'completed' AND start_time > $1 AND worker_id = any($2)`, since, s.workers(u.t, u.db)).Scan(&n))
			return n >= 20
		}, func() string { return "a sidecar does nothing: " + s.log.tail(20) })
	}
}

// requireRunning checks that sidecars are there, still under the registration
// that they began with, and have had no trouble with the schema.
func (u *upgrade) requireRunning(sidecars []*sidecar) {
	u.t.Helper()
	for _, s := range sidecars {
		require.False(u.t, s.hasExited(), s.log.tail(20))
		require.Len(u.t, s.workers(u.t, u.db), 1)
		for _, sign := range []string{"SQLSTATE 42", "SQLSTATE 0A", `"level":"ERROR"`} {
			require.NotContains(u.t, s.log.String(), sign)
		}
	}
}

func (u *upgrade) startOld() *sidecar {
	u.t.Helper()
	s := launchProgram(u.t, u.previous.sidecar, u.dsn, u.app.url, quick().plus(settings{setSlots: "20"}))
	s.awaitReady(u.t, soon)
	return s
}

func (u *upgrade) startNew() *sidecar {
	u.t.Helper()
	return startSidecar(u.t, u.newDSN, u.app.url, quick().plus(settings{setSlots: "20"}))
}

// requireRefused checks that a sidecar doesn't start on the schema as it is, and
// says why and what to do.
func (u *upgrade) requireRefused(binary, dsn string, says ...string) {
	u.t.Helper()
	s := execProgram(u.t, binary, settings{setDatabase: dsn, setApp: "http://127.0.0.1:1", setAdmin: "127.0.0.1:0"}, "run")
	require.Equal(u.t, 1, s.awaitExit(u.t, soon))
	for _, part := range says {
		require.Contains(u.t, s.log.String(), part)
	}
}
