package dev

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/config"
	"github.com/sched-sidecar/sched/internal/fleettest"
)

// newServer is a `sched dev` to which these keys were given.
func newServer(opts Options, given ...string) *server {
	opts.Given = func(key string) bool { return slices.Contains(given, key) }
	s := &server{opts: opts, console: &console{out: &screen{}}, cfg: config.DefaultSidecar()}
	s.cfg.Admin.Addr = "127.0.0.1:0"
	return s
}

func listen(t *testing.T) (port string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	_, port, err = net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	return port
}

func free(t *testing.T) (port string) {
	t.Helper()
	_, port, err := net.SplitHostPort(fleettest.FreeAddress(t))
	require.NoError(t, err)
	return port
}

func TestWhereTheAppIs(t *testing.T) {
	t.Parallel()
	port, taken := free(t), listen(t)
	command := []string{"node", "app.js"}

	s := newServer(Options{})
	_, err := s.choosePlaces(t.Context())
	require.NoError(t, err)
	require.Equal(t, "http://localhost:8080", s.cfg.App.URL)
	require.Equal(t, 5*time.Second, s.cfg.ShutdownGrace)

	s = newServer(Options{Command: command, Environ: []string{"PORT=" + port}})
	_, err = s.choosePlaces(t.Context())
	require.NoError(t, err)
	require.Equal(t, "http://localhost:"+port, s.cfg.App.URL, "PORT of the shell is where the app would listen anyway")

	s = newServer(Options{Command: command, Environ: []string{"PORT=" + port}}, "app.url", "shutdown_grace")
	s.cfg.App.URL = "http://127.0.0.1:" + taken
	_, err = s.choosePlaces(t.Context())
	require.ErrorContains(t, err, "something listens on http://127.0.0.1:"+taken+" already")

	s = newServer(Options{}, "app.url", "shutdown_grace")
	s.cfg.App.URL = "http://127.0.0.1:" + taken
	_, err = s.choosePlaces(t.Context())
	require.NoError(t, err, "an app that somebody started")
	require.Equal(t, 30*time.Second, s.cfg.ShutdownGrace)

	_, err = newServer(Options{Environ: []string{"PORT=http"}}).choosePlaces(t.Context())
	require.ErrorContains(t, err, "PORT=http is in the environment")
}

func TestTakenPortsAreReplaced(t *testing.T) {
	t.Parallel()
	s := newServer(Options{Command: []string{"node"}})
	s.cfg.Admin.Addr = "127.0.0.1:" + listen(t)
	was := s.cfg.Admin.Addr
	p, err := s.choosePlaces(t.Context())
	require.NoError(t, err)
	require.NotEqual(t, was, s.cfg.Admin.Addr)
	require.Contains(t, strings.Join(p.notes, "\n"), was+" is taken: the admin listener is on "+s.cfg.Admin.Addr)

	s = newServer(Options{}, "admin.addr")
	s.cfg.Admin.Addr = was
	_, err = s.choosePlaces(t.Context())
	require.NoError(t, err)
	require.Equal(t, was, s.cfg.Admin.Addr, "what was chosen stays, and fails loudly")
}

func TestBannerNamesNoPortThatIsAny(t *testing.T) {
	t.Parallel()
	said := func(addr string) string {
		s, lines := newServer(Options{}), ""
		s.cfg.Admin.Addr = addr
		s.sayAdmin(func(format string, args ...any) { lines += fmt.Sprintf(format, args...) + "\n" })
		return lines
	}
	require.Equal(t, "  admin  on any free port, which the sidecar says below: addr=…\n", said("127.0.0.1:0"))
	require.Equal(t, "  look   http://127.0.0.1:1/console/: the fleet, its queues and tasks, live\n  admin  http://127.0.0.1:1/status and /metrics\n",
		said("127.0.0.1:1"))
}

func TestAppEnvironment(t *testing.T) {
	t.Parallel()
	s := newServer(Options{Environ: []string{"A=b", "PORT=1", "DATABASE_URL=postgres://production", "SCHED_DATABASE_URL_FILE=/x", "PYTHONUNBUFFERED=x"}})
	s.cfg.App.URL = "http://localhost:3000"
	require.Equal(t, []string{"A=b", "PYTHONUNBUFFERED=x", "DATABASE_URL=postgres://dev", "SCHED_DATABASE_URL=postgres://dev", "PORT=3000"},
		s.appEnv("postgres://dev"))

	s = newServer(Options{Environ: []string{"PORT=1"}})
	s.cfg.App.URL = "unix:///run/app.sock"
	require.Equal(t, []string{"PORT=1", "DATABASE_URL=d", "SCHED_DATABASE_URL=d", "PYTHONUNBUFFERED=1"}, s.appEnv("d"))
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	require.True(t, answers(t.Context(), "http://localhost:"+listen(t)+"/tasks"))
	require.False(t, answers(t.Context(), "http://localhost:"+free(t)))
	require.False(t, answers(t.Context(), "unix:///no/such.sock:/tasks"))
	socket := t.TempDir() + "/app.sock"
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	require.True(t, answers(t.Context(), "unix://"+socket+":/tasks"))
}
