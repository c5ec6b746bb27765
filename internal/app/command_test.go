package app

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/config"
	"github.com/sched-sidecar/sched/internal/fleettest"
	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/internal/supervise"
)

// soon is ample time for what should happen at once.
const soon = time.Minute

// log collects what a run logs.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// run is a sidecar in process, mostly beside an app.
type run struct {
	pool *pgxpool.Pool
	dir  string // the app's
	url  string
	log  *log
	cfg  config.Sidecar
	opts Options
	stop context.CancelCauseFunc
	done chan error
}

// prepare makes a run whose app behaves as mood says; see appVariable.
func prepare(t *testing.T, mood string) *run {
	t.Helper()
	r := &run{pool: pgtest.New(t), dir: t.TempDir(), url: "http://" + fleettest.FreeAddress(t), log: &log{}, done: make(chan error, 1)}
	r.cfg = config.DefaultSidecar()
	r.cfg.Database.URL = config.DSN(pgtest.DSN(r.pool))
	r.cfg.App.URL = r.url
	r.cfg.Admin.Addr = "127.0.0.1:0"
	r.cfg.PollInterval = 200 * time.Millisecond
	r.cfg.Retry.Base = 10 * time.Millisecond
	r.opts = Options{
		Logger: slog.New(slog.NewTextHandler(r.log, nil)),
		App:    &supervise.Command{Args: []string{os.Args[0]}, Dir: r.dir, Env: append(os.Environ(), appVariable+"="+mood), Stderr: os.Stderr},
	}
	return r
}

func (r *run) start(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancelCause(context.Background())
	r.stop = stop
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		r.done <- RunSidecar(ctx, r.cfg, r.opts)
	}()
	t.Cleanup(func() {
		stop(nil)
		select {
		case <-finished:
		case <-time.After(soon):
			t.Error("the run doesn't end")
		}
		if t.Failed() {
			t.Log(r.log.String())
		}
	})
}

// ends waits for the run's end.
func (r *run) ends(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.done:
		return err
	case <-time.After(soon):
		require.FailNow(t, "the run doesn't end")
		return nil
	}
}

func (r *run) requireExit(t *testing.T, code int) {
	t.Helper()
	var exit *ExitError
	require.ErrorAs(t, r.ends(t), &exit)
	require.Equal(t, code, exit.Code)
}

func (r *run) enqueue(t *testing.T, call string) int64 {
	t.Helper()
	var id int64
	require.NoError(t, r.pool.QueryRow(context.Background(), "select sched.enqueue("+call+")").Scan(&id))
	return id
}

func (r *run) status(t *testing.T, id int64) (status string, attempt int) {
	t.Helper()
	require.NoError(t, r.pool.QueryRow(context.Background(), "select status::text, attempt from sched.task where id = $1", id).Scan(&status, &attempt))
	return status, attempt
}

func (r *run) awaitStatus(t *testing.T, id int64, want string) {
	t.Helper()
	require.Eventually(t, func() bool { got, _ := r.status(t, id); return got == want }, soon, 10*time.Millisecond, want)
}

func (r *run) awaitFile(t *testing.T, name string) string {
	t.Helper()
	var text []byte
	require.Eventually(t, func() bool {
		var err error
		text, err = os.ReadFile(filepath.Join(r.dir, name))
		return err == nil && bytes.HasSuffix(text, []byte("\n"))
	}, soon, 10*time.Millisecond, name)
	return strings.TrimSpace(string(text))
}

func (r *run) makeFile(t *testing.T, name string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, name), nil, 0o600))
}

func (r *run) awaitLog(t *testing.T, want string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(r.log.String(), want) }, soon, 10*time.Millisecond, want)
}

// requireOrder finds the texts in the log, one after the other.
func (r *run) requireOrder(t *testing.T, texts ...string) {
	t.Helper()
	rest := r.log.String()
	for _, text := range texts {
		_, after, found := strings.Cut(rest, text)
		require.True(t, found, "%q is missing, or too early", text)
		rest = after
	}
}

var errSignal = errors.New("got SIGTERM")

func TestAppIsAwaited(t *testing.T) {
	t.Parallel()
	r := prepare(t, "late")
	id := r.enqueue(t, "'ok'")
	r.start(t)
	r.awaitLog(t, "sidecar ready")
	r.awaitLog(t, "waiting for the app")
	status, attempt := r.status(t, id)
	require.Equal(t, "available", status)
	require.Zero(t, attempt)

	r.makeFile(t, "go")
	r.awaitStatus(t, id, "completed")
	_, attempt = r.status(t, id)
	require.Equal(t, 1, attempt, "nothing was tried before the app was up")
	r.stop(errSignal)
	r.requireExit(t, 128+int(syscall.SIGTERM))
}

func TestSidecarDrainsBeforeTheAppIsStopped(t *testing.T) {
	t.Parallel()
	r := prepare(t, "polite")
	r.start(t)
	id := r.enqueue(t, "'slow'")
	r.awaitFile(t, "slow")
	r.stop(errSignal)
	r.awaitLog(t, "msg=stopping")
	require.NotContains(t, r.log.String(), "stopping the app")
	r.makeFile(t, "go")
	r.requireExit(t, 7)

	status, _ := r.status(t, id)
	require.Equal(t, "completed", status, "a running task may end")
	r.requireOrder(t, "msg=stopping", `reason="got SIGTERM"`, "msg=stopped", "stopping the app", `msg="app ended" how="exit status 7" by_itself=false`)
}

func TestStubbornAppIsKilled(t *testing.T) {
	t.Parallel()
	r := prepare(t, "stubborn")
	r.cfg.ShutdownGrace = 12 * time.Second
	r.start(t)
	pid, err := strconv.Atoi(r.awaitFile(t, "up"))
	require.NoError(t, err)
	r.awaitLog(t, "the app is up")
	started := time.Now()
	r.stop(errSignal)
	r.requireExit(t, 128+int(syscall.SIGKILL))
	require.GreaterOrEqual(t, time.Since(started), time.Second, "it had its time")
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
}

func TestHurryKillsAStubbornApp(t *testing.T) {
	t.Parallel()
	hurry := make(chan struct{})
	r := prepare(t, "stubborn")
	r.cfg.ShutdownGrace = time.Hour
	r.opts.Hurry = hurry
	r.start(t)
	r.awaitLog(t, "the app is up")
	id := r.enqueue(t, "'slow'")
	r.awaitFile(t, "slow")
	r.stop(errSignal)
	r.awaitLog(t, "msg=stopping")
	close(hurry)
	r.requireExit(t, 128+int(syscall.SIGKILL))
	status, attempt := r.status(t, id)
	require.Equal(t, "available", status, "handed back")
	require.Zero(t, attempt)
}

func TestAppThatEndsByItselfEndsTheRun(t *testing.T) {
	t.Parallel()
	for mood, code := range map[string]int{"hasty": 3, "done": 0} {
		t.Run(mood, func(t *testing.T) {
			t.Parallel()
			r := prepare(t, mood)
			r.start(t)
			r.enqueue(t, "'ok'")
			if code == 0 {
				require.NoError(t, r.ends(t))
			} else {
				r.requireExit(t, code)
			}
			r.requireOrder(t, `reason="the app ended by itself"`, "msg=stopped", "by_itself=true")
			var state string
			require.NoError(t, r.pool.QueryRow(t.Context(), "select state from sched.worker").Scan(&state))
			require.Equal(t, "done", state, "the sidecar has deregistered")
		})
	}
}

func TestAppThatEndsBeforeTheSidecarIsUp(t *testing.T) {
	t.Parallel()
	for name, untilEmpty := range map[string]bool{"run": false, "until empty": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			silent, err := net.Listen("tcp", "127.0.0.1:0") // a database that doesn't answer
			require.NoError(t, err)
			defer func() { _ = silent.Close() }()
			r := prepare(t, "")
			r.opts.App.Args = []string{"true"}
			r.opts.UntilEmpty = untilEmpty
			r.cfg.Database.URL = config.DSN("postgres://nobody@" + silent.Addr().String() + "/none?sslmode=disable")
			r.start(t)
			if untilEmpty {
				r.requireExit(t, 1)
			} else {
				require.NoError(t, r.ends(t))
			}
		})
	}
}

func TestAppThatCannotBeStarted(t *testing.T) {
	t.Parallel()
	r := prepare(t, "")
	r.opts.App.Args = []string{"./no-such-app"}
	r.start(t)
	var exit *ExitError
	err := r.ends(t)
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 127, exit.Code)
	require.EqualError(t, err, "there is no command ./no-such-app")
}

func TestAppEndsWithASidecarThatFails(t *testing.T) {
	t.Parallel()
	r := prepare(t, "")
	r.cfg.Database.URL = "postgres://nobody@127.0.0.1:1/none?sslmode=disable"
	r.start(t)
	require.ErrorContains(t, r.ends(t), "no connection to the database")
	r.requireOrder(t, "app started", "app ended")
}

func TestSignalsReachTheApp(t *testing.T) {
	t.Parallel()
	signals, killed := make(chan os.Signal, 1), make(chan func(), 1)
	r := prepare(t, "hup")
	r.opts.AppSignals = signals
	r.opts.AppStarted = func(kill func()) { killed <- kill }
	r.start(t)
	r.awaitFile(t, "up")
	signals <- syscall.SIGHUP
	require.Equal(t, "hup", r.awaitFile(t, "hup"))
	(<-killed)()
	r.requireExit(t, 128+int(syscall.SIGKILL))
}

func TestStrangerAtTheAppsURL(t *testing.T) {
	t.Parallel()
	r := prepare(t, "")
	stranger, err := net.Listen("tcp", strings.TrimPrefix(r.url, "http://"))
	require.NoError(t, err)
	defer func() { _ = stranger.Close() }()
	r.start(t)
	r.requireExit(t, 1) // the port is taken
	require.Contains(t, r.log.String(), "something answers at app.url already")
}

func TestPortIsTheAppURLs(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"http://127.0.0.1:3000/tasks": "PORT=3000", "https://app": "PORT=443", "h2c://app": "PORT=80", "h2c+unix:///run/app.sock": "", "http://[::1]": "PORT=80", "unix:///run/app.sock:/x": "",
	} {
		got := withAddress([]string{"A=b"}, config.App{URL: url})
		if want == "" {
			require.Equal(t, []string{"A=b"}, got, url)
		} else {
			require.Equal(t, []string{"A=b", want}, got, url)
		}
	}
	require.Equal(t, []string{"PORT=1"}, withAddress([]string{"PORT=1"}, config.App{URL: "http://127.0.0.1:3000"}), "the user knows better")
	require.Equal(t, []string{"A=b", "SCHED_TARGET=unix:///run/s.sock"},
		withAddress([]string{"A=b"}, config.App{Protocol: config.ProtocolGRPC, Listen: "unix:///run/s.sock"}))
}
