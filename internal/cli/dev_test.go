package cli

import (
	"context"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDevUsage(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		args []string
		want string
	}{
		"no dashes":      {[]string{"node", "app.js"}, `sched: dev: takes a command after -- only, got ["node" "app.js"] before it: write sched dev -- node app.js`},
		"a database":     {[]string{"--dsn=postgres://production"}, "sched: dev: has a database of its own"},
		"two wishes":     {[]string{"--print-dsn", "--", "node"}, "sched: dev: --print-dsn runs no command"},
		"a wrong value":  {[]string{"--app-url=nonsense"}, "app.url"},
		"a near flag":    {[]string{"--ephemral"}, "did you mean --ephemeral?"},
		"a hidden value": {[]string{"--slots-ceiling=0"}, "--slots-ceiling"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := runs(schedCommand([]string{"SCHED_DEV_DIR=" + t.TempDir()}), nil, append([]string{"dev"}, tt.args...)...)
			require.Equal(t, exitUsage, got.code)
			require.Contains(t, got.stderr, tt.want)
		})
	}
}

func TestDevHelpShowsFewFlags(t *testing.T) {
	t.Parallel()

	got := runs(schedCommand(nil), nil, "dev", "--help")

	require.Equal(t, exitOK, got.code)
	for _, flag := range []string{"--ephemeral", "--dir", "--port", "--print-dsn", "--app-url", "--admin-addr"} {
		require.Contains(t, got.stdout, flag+" ")
	}
	require.NotContains(t, got.stdout, "--fence-after")
	require.NotContains(t, got.stdout, "--database-url")
	require.Contains(t, got.stdout, `Every flag and variable of "sched-sidecar run" works too`)
}

func TestDevPrintsNoDSNOfAnother(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()

	got := runs(schedCommand([]string{"SCHED_DEV_DIR=" + dir, "DATABASE_URL=postgres://production"}), nil, "dev", "--print-dsn")

	require.Equal(t, exitFailed, got.code)
	require.Empty(t, got.stdout)
	require.Contains(t, got.stderr, "sched dev is not running here")
	require.Contains(t, got.stderr, dir)
}

func TestDevDataDir(t *testing.T) {
	t.Parallel()
	dirOf := func(o devOptions, environ ...string) string {
		dir, err := o.dataDir(environ)
		require.NoError(t, err)

		return dir
	}

	require.Equal(t, "/flag", dirOf(devOptions{dir: "/flag"}, "SCHED_DEV_DIR=/env"))
	require.Equal(t, "/env", dirOf(devOptions{}, "SCHED_DEV_DIR=/env"))
	require.Empty(t, dirOf(devOptions{ephemeral: true}))
	require.Contains(t, dirOf(devOptions{}, "HOME=/home/ann"), "/sched/dev/")
}

func TestWithout(t *testing.T) {
	t.Parallel()
	environ := []string{"A=1", "AB=2", "B=3"}

	require.Equal(t, []string{"AB=2"}, without(environ, []string{"A", "B", "C"}))
	require.Equal(t, []string{"A=1", "AB=2", "B=3"}, environ)
}

func TestColours(t *testing.T) {
	t.Parallel()
	require.False(t, wantsColour(&strings.Builder{}, nil))
	file, err := os.CreateTemp(t.TempDir(), "out")
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	require.False(t, wantsColour(file, nil), "no terminal")
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo terminal here: %v", err)
	}
	defer func() { _ = terminal.Close() }()
	require.True(t, wantsColour(terminal, []string{"TERM=xterm", "NO_COLOR="}))
	require.False(t, wantsColour(terminal, []string{"TERM=xterm", "NO_COLOR=1"}))
	require.False(t, wantsColour(terminal, []string{"TERM=dumb"}))
}

// Not parallel: signals are the whole process's.
func TestHangupEnds(t *testing.T) { //nolint:paralleltest // see above
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("SIGHUP is ignored here, as under nohup, and stays so")
	}
	ctx, stop := endsAtHangup(t.Context())
	defer stop()
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	select {
	case <-ctx.Done():
		require.EqualError(t, context.Cause(ctx), "got signal hangup")
	case <-time.After(10 * time.Second):
		require.FailNow(t, "it goes on")
	}
}
