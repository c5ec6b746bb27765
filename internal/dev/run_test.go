package dev

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/examples/hello"
	"github.com/sched-sidecar/sched/internal/app"
	"github.com/sched-sidecar/sched/internal/config"
)

// started is a `sched dev` in this process.
type started struct {
	out  *screen
	stop context.CancelFunc
	done chan error
}

func start(t *testing.T, opts Options) *started {
	t.Helper()
	d := &started{out: &screen{}, done: make(chan error, 1)}
	opts.Stdout, opts.Program = d.out, "./bin/sched"
	opts.Sidecar = config.DefaultSidecar()
	opts.Sidecar.Admin.Addr = "127.0.0.1:0"
	opts.Sidecar.App.URL = "http://127.0.0.1:" + free(t)
	opts.Given = func(string) bool { return true }
	opts.Environ = append(os.Environ(), opts.Environ...)
	ctx, cancel := context.WithCancel(context.Background())
	d.stop = cancel
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		d.done <- Run(ctx, opts)
	}()
	t.Cleanup(func() {
		cancel()
		<-finished
		if t.Failed() {
			t.Log(d.out.String())
		}
	})
	return d
}

func (d *started) ends(t *testing.T) error {
	t.Helper()
	select {
	case err := <-d.done:
		return err
	case <-time.After(time.Minute):
		require.FailNow(t, "sched dev doesn't end")
		return nil
	}
}

func (d *started) await(t *testing.T, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(d.out.String(), text) || len(d.done) > 0 }, time.Minute, 20*time.Millisecond)
	require.Contains(t, d.out.String(), text)
}

// dsn is what it says to export.
func (d *started) dsn(t *testing.T) string {
	t.Helper()
	d.await(t, "Ctrl-C stops all of it.")
	_, rest, found := strings.Cut(d.out.String(), "export DSN='")
	require.True(t, found)
	dsn, _, _ := strings.Cut(rest, "'")
	return dsn
}

func query[T any](t *testing.T, dsn, sql string) (value T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	require.NoError(t, conn.QueryRow(t.Context(), sql).Scan(&value))
	return value
}

// dataDir is one that the server's account can enter.
func dataDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, open := range []string{dir, filepath.Dir(dir)} { // to another account, when root tests
		require.NoError(t, os.Chmod(open, 0o755))
	}
	return dir + "/data"
}

func TestDataAndDSNStay(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	first := start(t, Options{Dir: dir})
	dsn := first.dsn(t)
	id := query[int64](t, dsn, "select sched.enqueue('hello')")
	got, err := RunningDSN(t.Context(), dir)
	require.NoError(t, err)
	require.Equal(t, dsn, got)
	require.Contains(t, first.out.String(), "starting for the first time")
	require.Contains(t, first.out.String(), `./bin/sched explain 1 --dsn "$DSN"`)
	require.Contains(t, first.out.String(), "kept from run to run in "+dir)
	require.Contains(t, first.out.String(), "cat > app.js <<'EOF'\n"+hello.Node+"EOF\nPORT=", "what to do next, without a command")
	require.Contains(t, first.out.String(), "cat > app.py <<'EOF'\n"+hello.Python+"EOF\nPORT=")

	second := start(t, Options{Dir: dir})
	require.ErrorContains(t, second.ends(t), "sched dev runs already with the data in "+dir)
	first.stop()
	require.NoError(t, first.ends(t), "a run that is stopped is a success")
	_, err = RunningDSN(t.Context(), dir)
	require.ErrorIs(t, err, ErrNotRunning)

	third := start(t, Options{Dir: dir})
	require.Equal(t, dsn, third.dsn(t))
	require.Equal(t, "available", query[string](t, dsn, "select status::text from sched.task"))
	require.Equal(t, id, query[int64](t, dsn, "select id from sched.task"))
	require.NotContains(t, third.out.String(), "note ")
}

func TestDSNChangesWithATakenPort(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = taken.Close() }()
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.WriteFile(dir+"/lock", nil, 0o600)) // as of a server of ours
	require.NoError(t, recordDSN(dir, "postgres://postgres@"+taken.Addr().String()+"/postgres?sslmode=disable"))

	d := start(t, Options{Dir: dir, Environ: []string{"DATABASE_URL=postgres://production"}})
	dsn := d.dsn(t)
	require.NotContains(t, dsn, taken.Addr().String())
	require.Regexp(t, `note   port \d+ is taken, so Postgres is on \d+: export DSN anew`, d.out.String())
	require.Contains(t, d.out.String(), "DATABASE_URL of this shell is not used")
}

func TestAppIsPartOfIt(t *testing.T) {
	t.Parallel()
	const script = `echo "url $DATABASE_URL port $PORT"; echo oops >&2; trap 'echo bye; exit 9' TERM; while :; do sleep 0.05; done`
	d := start(t, Options{Ephemeral: true, Command: []string{"/bin/sh", "-c", script}})
	d.await(t, "app      | url postgres://")
	d.await(t, "app      | oops")
	dsn := d.dsn(t)
	require.Contains(t, d.out.String(), "url "+dsn+" port ")
	require.Equal(t, "off", query[string](t, dsn, "show fsync"), "what is thrown away need not be safe")
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "select nonsense")
	require.Error(t, err)
	require.NoError(t, conn.Close(t.Context()))
	d.await(t, `postgres | ERROR:  column "nonsense" does not exist`)
	d.await(t, "sidecar ready")

	d.stop()
	require.NoError(t, d.ends(t), "however the app takes its SIGTERM")
	order := []string{"sidecar  | msg=stopped", "app      | bye", "postgres | stopping"}
	rest := d.out.String()
	for _, line := range order {
		_, after, found := strings.Cut(rest, line)
		require.True(t, found, "%q is missing, or too early", line)
		rest = after
	}
	_, err = pgx.Connect(t.Context(), dsn)
	require.Error(t, err)
}

func TestAppEndsIt(t *testing.T) {
	t.Parallel()
	d := start(t, Options{Ephemeral: true, Command: []string{"/bin/sh", "-c", "echo last words; exit 5"}})
	var exit *app.ExitError
	require.ErrorAs(t, d.ends(t), &exit)
	require.Equal(t, 5, exit.Code)
	require.Contains(t, d.out.String(), "app      | last words")
	require.Contains(t, d.out.String(), `msg="app ended" how="exit status 5" by_itself=true`)
}

func TestMissingAppStartsNothing(t *testing.T) {
	t.Parallel()
	d := start(t, Options{Ephemeral: true, Command: []string{"no-such-program"}})
	var exit *app.ExitError
	err := d.ends(t)
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 127, exit.Code)
	require.ErrorContains(t, err, "not in PATH")
	require.NotContains(t, d.out.String(), "postgres")
}

func TestStopWhilePostgresStarts(t *testing.T) {
	t.Parallel()
	d := start(t, Options{Ephemeral: true})
	d.await(t, "postgres | starting")
	d.stop()
	err := d.ends(t)
	if err != nil { // it may have been quicker
		require.True(t, errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "canceled"), err)
	}
}
