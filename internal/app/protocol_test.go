package app

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/worker"
)

// requireTask waits until a task has a status and returns its output.
func (r *run) requireTask(t *testing.T, id int64, status string) (output string) {
	t.Helper()
	require.Eventually(t, func() bool {
		var now string
		err := r.pool.QueryRow(t.Context(), "SELECT status::text, coalesce(output::text, '') FROM sched.task WHERE id = $1", id).Scan(&now, &output)
		return err == nil && now == status
	}, soon, 10*time.Millisecond, "task %d is not %s", id, status)
	return output
}

func TestTasksOverASession(t *testing.T) {
	t.Parallel()
	r := prepare(t, "")
	r.opts.App = nil
	r.cfg.App.Protocol, r.cfg.App.Listen = "grpc", "unix://"+filepath.Join(t.TempDir(), "s.sock")
	r.start(t)
	waiting := r.enqueue(t, "'echo', '[1]'")
	hopeless := r.enqueue(t, "'hopeless', protocol => 'grpc'")
	strange := r.enqueue(t, "'strange'")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- worker.Run(ctx, worker.Options{Target: r.cfg.App.Listen, Handlers: map[string]worker.Handler{
			"echo":     func(_ context.Context, task *worker.Task) (any, error) { return task.Args, nil },
			"hopeless": func(context.Context, *worker.Task) (any, error) { return nil, worker.Cancel(context.Canceled) },
		}})
	}()
	require.JSONEq(t, "[1]", r.requireTask(t, waiting, "completed"))
	r.requireTask(t, hopeless, "cancelled")
	require.Eventually(t, func() bool {
		var skipped []string
		err := r.pool.QueryRow(t.Context(), "SELECT skipped_kinds FROM sched.worker WHERE ended_at IS NULL").Scan(&skipped)
		return err == nil && len(skipped) == 1 && skipped[0] == "strange"
	}, soon, 10*time.Millisecond)
	var attempt int
	require.NoError(t, r.pool.QueryRow(t.Context(), "SELECT attempt FROM sched.task WHERE id = $1", strange).Scan(&attempt))
	require.LessOrEqual(t, attempt, 1) // handed back unspent, each time

	// While no session is open nothing is claimed; it goes on with the next.
	cancel()
	require.NoError(t, <-ended)
	late := r.enqueue(t, "'echo', '[2]'")
	again, stop := context.WithCancel(t.Context())
	go func() {
		ended <- worker.Run(again, worker.Options{Target: r.cfg.App.Listen, Handlers: map[string]worker.Handler{
			"echo": func(_ context.Context, task *worker.Task) (any, error) { return task.Args, nil },
		}})
	}()
	require.JSONEq(t, "[2]", r.requireTask(t, late, "completed"))
	stop()
	require.NoError(t, <-ended)
}

func TestTasksAsCommands(t *testing.T) {
	t.Parallel()
	r := prepare(t, "")
	r.opts.App = nil
	r.cfg.App.Protocol, r.cfg.App.Command = "exec", []string{"/bin/sh", "-c", `case "$SCHED_KIND" in echo) cat;; *) echo gone >&2; exit 65;; esac`}
	r.start(t)
	echo, bad := r.enqueue(t, `'echo', '{"a": [1, "x"]}'`), r.enqueue(t, "'bad', protocol => 'exec'")
	other := r.enqueue(t, "'echo', protocol => 'http'")
	require.JSONEq(t, `{"a": [1, "x"]}`, r.requireTask(t, echo, "completed"))
	r.requireTask(t, bad, "cancelled")
	var errors []json.RawMessage
	require.NoError(t, r.pool.QueryRow(t.Context(), "SELECT to_jsonb(errors) FROM sched.river_job WHERE id = $1", bad).Scan(&errors))
	require.Contains(t, string(errors[0]), "exit status 65: gone")
	require.Empty(t, r.requireTask(t, other, "available")) // nobody here speaks http
}
