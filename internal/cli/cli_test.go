package cli

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/app"
	"github.com/sched-sidecar/sched/internal/config"
	"github.com/sched-sidecar/sched/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// result is what a command left behind.
type result struct {
	code           int
	stdout, stderr string
}

// runs executes a command in process.
func runs(root *cobra.Command, signals <-chan os.Signal, args ...string) result {
	var stdout, stderr strings.Builder
	p := Process{Args: args, Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Signals: signals, Exit: func(int) {}}
	code := p.execute(root)

	return result{code, stdout.String(), stderr.String()}
}

// sidecarWith is the command line of a sidecar that does nothing.
func sidecarWith(environ ...string) *cobra.Command {
	return sidecarCommand(environ, func(context.Context, config.Sidecar, app.Options) error { return nil })
}

func TestUsage(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		args []string
		want string // the whole of standard error
	}{
		{"nothing", nil, "sched-sidecar: needs a command: run, config, version\n"},
		{"half a command", []string{"config"}, "sched-sidecar: config: needs a command: check, print\n"},
		{"no such command", []string{"rn"}, "sched-sidecar: there is no command \"rn\"; it has: run, config, version\n"},
		{"a near command", []string{"config", "prnt"}, "sched-sidecar: config: there is no command \"prnt\"; did you mean print?\n"},
		{"an argument", []string{"version", "fast"}, "sched-sidecar: version: takes no arguments, got [\"fast\"]; see sched-sidecar version --help\n"},
		{"a command without dashes", []string{"run", "node", "app.js"}, "sched-sidecar: run: takes a command after -- only, got [\"node\" \"app.js\"] before it: write sched-sidecar run -- node app.js; see sched-sidecar run --help\n"},
		{"half a command before them", []string{"run", "node", "--", "app.js"}, "sched-sidecar: run: takes a command after -- only, got [\"node\"] before it: write sched-sidecar run -- node app.js; see sched-sidecar run --help\n"},
		{"dashes without a command", []string{"run", "--"}, "sched-sidecar: run: there is no command after --\n"},
		{"a near flag", []string{"run", "--slot-ceiling=5"}, "sched-sidecar: unknown flag: --slot-ceiling; did you mean --slots-ceiling?\n"},
		{"no such flag", []string{"run", "--zebra"}, "sched-sidecar: unknown flag: --zebra; see sched-sidecar run --help\n"},
		{"a wrong value", []string{"run", "--slots-ceiling=0"}, "sched-sidecar: config: slots.ceiling = 0 (--slots-ceiling): must be 1 to 5000; one sidecar carries up to 5000; more sidecars carry more\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, result{code: exitUsage, stderr: tt.want}, runs(sidecarWith(), nil, tt.args...))
		})
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()

	got := runs(sidecarWith(), nil, "run", "--help")

	require.Equal(t, exitOK, got.code)
	require.Empty(t, got.stderr)
	require.Contains(t, got.stdout, "130 or 143")
	require.Contains(t, got.stdout, "--shutdown-grace duration")
}

func TestVersion(t *testing.T) {
	t.Parallel()

	require.Regexp(t, `^sched-sidecar \S+ \(.*go1\..*\)\n$`, runs(sidecarWith(), nil, "version").stdout)
	require.Regexp(t, `^sched \S+ \(.*go1\..*\)\n$`, runs(schedCommand(nil), nil, "version").stdout)
	require.Equal(t, runs(sidecarWith(), nil, "version"), runs(sidecarWith(), nil, "--version"))
	require.Equal(t, runs(schedCommand(nil), nil, "version"), runs(schedCommand(nil), nil, "--version"))
}

func TestRunPassesConfigOn(t *testing.T) {
	t.Parallel()
	var got config.Sidecar
	var opts app.Options
	root := sidecarCommand([]string{"SCHED_APP_URL=http://app:1", "SCHED_LOG_FORMAT=json"}, func(ctx context.Context, cfg config.Sidecar, o app.Options) error {
		got, opts = cfg, o
		o.Logger.LogAttrs(ctx, slog.LevelDebug, "not shown")
		o.Logger.LogAttrs(ctx, slog.LevelInfo, "ready", slog.Duration("after", 1500*time.Millisecond))

		return nil
	})

	res := runs(root, nil, "run", "--slots-ceiling", "7")

	require.Equal(t, exitOK, res.code)
	require.Equal(t, "http://app:1", got.App.URL)
	require.Equal(t, 7, got.Slots.Ceiling)
	require.NotEmpty(t, opts.Version)
	require.Empty(t, res.stdout)
	require.Regexp(t, `^\{"time":"[^"]+","level":"INFO","msg":"ready","after":"1.5s"\}\n$`, res.stderr)
}

func TestRunFails(t *testing.T) {
	t.Parallel()
	root := sidecarCommand(nil, func(context.Context, config.Sidecar, app.Options) error { return errors.New("no database") })

	require.Equal(t, result{code: exitFailed, stderr: "sched-sidecar: no database\n"}, runs(root, nil, "run"))
}

func TestFirstSignalDrains(t *testing.T) {
	t.Parallel()
	signals := make(chan os.Signal, 2)
	root := sidecarCommand(nil, func(ctx context.Context, _ config.Sidecar, _ app.Options) error {
		signals <- syscall.SIGTERM
		<-ctx.Done()
		require.EqualError(t, context.Cause(ctx), "got SIGTERM")

		return nil // drained
	})

	require.Equal(t, result{code: exitOK}, runs(root, signals, "run"))
}

func TestSignalBeforeItWasReady(t *testing.T) {
	t.Parallel()
	signals := make(chan os.Signal, 2)
	root := sidecarCommand(nil, func(ctx context.Context, _ config.Sidecar, _ app.Options) error {
		signals <- syscall.SIGINT
		<-ctx.Done()

		return ctx.Err()
	})

	require.Equal(t, result{code: 130, stderr: "sched-sidecar: stopped before it was done: got SIGINT\n"}, runs(root, signals, "run"))
}

func TestSecondSignalExitsAtOnce(t *testing.T) {
	t.Parallel()
	signals := make(chan os.Signal, 2)
	exited := make(chan int, 1)
	root := sidecarCommand(nil, func(context.Context, config.Sidecar, app.Options) error {
		signals <- syscall.SIGINT
		signals <- syscall.SIGTERM
		select { // it doesn't heed ctx: only the process's end ends it
		case code := <-exited:
			exited <- code
		case <-time.After(10 * time.Second):
		}

		return nil
	})
	var stderr strings.Builder
	p := Process{Args: []string{"run"}, Stdout: &stderr, Stderr: &stderr, Signals: signals, Exit: func(code int) { exited <- code }}

	p.execute(root)

	require.Len(t, exited, 1)
	require.Equal(t, 143, <-exited)
	require.Equal(t, "sched-sidecar: got SIGTERM again: exiting at once\n", stderr.String())
}

func TestConfigCheck(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "sched.yaml")
	require.NoError(t, os.WriteFile(file, []byte("queues: [mail]\n"), 0o600))

	require.Equal(t, result{stdout: "configuration is valid (without a file)\n"}, runs(sidecarWith(), nil, "config", "check"))
	require.Equal(t, result{stdout: "configuration is valid (with " + file + ")\n"}, runs(sidecarWith(), nil, "config", "check", "--config", file))

	got := runs(sidecarWith("SCHED_ZEBRA=1", "SCHED_SHUTDOWN_GRACE=30"), nil, "config", "check")
	require.Equal(t, exitUsage, got.code)
	require.Empty(t, got.stdout)
	require.Contains(t, got.stderr, "SCHED_ZEBRA")
	require.Contains(t, got.stderr, "SCHED_SHUTDOWN_GRACE")
}

func TestConfigPrint(t *testing.T) {
	t.Parallel()

	got := runs(sidecarWith("SCHED_DATABASE_URL=postgres://u:hunter2@h/d"), nil, "config", "print", "--queues=a,b")

	require.Equal(t, exitOK, got.code)
	require.Contains(t, got.stdout, "url: postgres://u:xxxxx@h/d # SCHED_DATABASE_URL\n")
	require.Contains(t, got.stdout, "queues: [a, b] # --queues\n")
	require.NotContains(t, got.stdout, "hunter2")
}
