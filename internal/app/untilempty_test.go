package app

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/config"
	"github.com/sched-sidecar/sched/internal/supervise"
	"github.com/sched-sidecar/sched/sidecar/remainder"
)

func TestUntilEmpty(t *testing.T) {
	t.Parallel()
	for name, withApp := range map[string]bool{"with a command": true, "with somebody else's app": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := prepare(t, "")
			r.opts.UntilEmpty = true
			var ids []int64
			for _, kind := range []string{"'ok'", "'flaky'", "'busy'", "'ok', queue => 'other'"} {
				ids = append(ids, r.enqueue(t, kind))
			}
			later := r.enqueue(t, "'ok', run_at => now() + interval '1 hour'")
			if !withApp {
				app, err := supervise.Start(supervise.Command{Args: r.opts.App.Args, Dir: r.dir, Env: withAddress(r.opts.App.Env, config.App{URL: r.url})})
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, app.Stop(context.Background(), syscall.SIGTERM)) })
				r.opts.App = nil
			}
			r.start(t)
			require.NoError(t, r.ends(t), "the app's own exit code is of no interest")
			for _, id := range ids {
				status, _ := r.status(t, id)
				require.Equal(t, "completed", status, "task %d", id)
			}
			status, _ := r.status(t, later)
			require.Equal(t, "scheduled", status)
			require.Contains(t, r.log.String(), `reason="nothing is left to do"`)
		})
	}
}

func TestUntilEmptyFails(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		task, mood string
		code       int
		want       string
	}{
		"a task was discarded":              {"'fails', max_attempts => 2", "", 0, "was discarded: "},
		"a task was refused":                {"'bad'", "", 0, "was cancelled: "},
		"a kind is lacking":                 {"'tpyo'", "", 0, "left behind because the app answers 404 to their kind: 1 of tpyo"},
		"the app ended":                     {"'fails'", "done", 1, "stopped while tasks were left: the app ended by itself"},
		"the app ended with an exit status": {"'fails'", "hasty", 3, "stopped while tasks were left: the app ended by itself"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := prepare(t, tt.mood)
			r.opts.UntilEmpty = true
			r.enqueue(t, tt.task)
			r.start(t)
			err := r.ends(t)
			require.ErrorContains(t, err, tt.want)
			var exit *ExitError
			if tt.code == 0 {
				require.ErrorIs(t, err, remainder.ErrFailed)
			} else {
				require.ErrorAs(t, err, &exit)
				require.Equal(t, tt.code, exit.Code)
			}
		})
	}
}

func TestUntilEmptyIsStopped(t *testing.T) {
	t.Parallel()
	r := prepare(t, "polite")
	r.opts.UntilEmpty = true
	r.enqueue(t, "'fails'")
	r.start(t)
	r.awaitLog(t, "attempt failed")
	r.stop(errSignal)
	err := r.ends(t)
	require.ErrorIs(t, err, context.Canceled, "it wasn't done")
	require.ErrorContains(t, err, "stopped while tasks were left: got SIGTERM")
	var exit *ExitError
	require.NotErrorAs(t, err, &exit)
}

func TestUntilEmptyOfAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	r := prepare(t, "late") // it never answers
	r.opts.UntilEmpty = true
	r.start(t)
	require.NoError(t, r.ends(t))
}

// TestAppIsMeasured: what the fleet is told of the app, and of its machine.
func TestAppIsMeasured(t *testing.T) {
	t.Parallel()
	r := prepare(t, "polite")
	r.cfg.Labels = map[string]string{"zone": "cn-north", "arch": "mine"}
	r.cfg.HeartbeatInterval = 200 * time.Millisecond
	r.start(t)
	r.awaitFile(t, "up")
	require.Eventually(t, func() bool {
		var known bool
		require.NoError(t, r.pool.QueryRow(t.Context(), `select coalesce(bool_or(mem > 0 and mem < 0.5 and load_percent > 0), false) from sched.worker`).Scan(&known))
		return known
	}, soon, 50*time.Millisecond, "its memory")
	var labels map[string]string
	require.NoError(t, r.pool.QueryRow(t.Context(), `select labels from sched.worker`).Scan(&labels))
	require.Equal(t, "cn-north", labels["zone"])
	require.Equal(t, "mine", labels["arch"], "what was configured wins")
	require.Equal(t, runtime.GOOS, labels["os"])
	require.NotEmpty(t, labels["cpus"])
}

func TestPIDFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "app.pid")
	cfg := config.DefaultSidecar()
	require.Zero(t, appPID(cfg, Options{}), "none is configured")
	cfg.App.PIDFile = file
	require.Zero(t, appPID(cfg, Options{}), "there is none yet")
	require.NoError(t, os.WriteFile(file, []byte("417\n"), 0o600))
	require.Equal(t, 417, appPID(cfg, Options{}))
	require.Equal(t, 5, appPID(cfg, Options{appPID: 5}), "a command's own")
	require.NoError(t, os.WriteFile(file, []byte("garbage"), 0o600))
	require.Zero(t, appPID(cfg, Options{}))
	cfg.App.Protocol = config.ProtocolExec
	require.Equal(t, os.Getpid(), appPID(cfg, Options{}), "the commands are its children")
}
