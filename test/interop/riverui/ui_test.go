package riverui_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func enqueue(t *testing.T, pool *pgxpool.Pool, arguments string) int64 {
	t.Helper()
	return scalar[int64](t, pool, "SELECT sched.enqueue("+arguments+")")
}

func scalar[T any](t *testing.T, pool *pgxpool.Pool, sql string, args ...any) T {
	t.Helper()
	var value T
	require.NoError(t, pool.QueryRow(t.Context(), sql, args...).Scan(&value))
	return value
}

func TestFrontEnd(t *testing.T) {
	t.Parallel()
	ui := newUI(t, pgtest.New(t))

	status, page := ui.send(t, http.MethodGet, "/", "")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, page, "<!doctype html>")
	_, rest, found := strings.Cut(page, `src="/assets/`)
	require.True(t, found, "the built front end is in the module: %s", page)
	script, _, _ := strings.Cut(rest, `"`)
	status, _ = ui.send(t, http.MethodGet, "/assets/"+script, "")
	require.Equal(t, http.StatusOK, status)
}

// What the pages show of tasks that SQL enqueued.
func TestPages(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	ui := newUI(t, pool)
	id := enqueue(t, pool, `'mail.send', '{"to": "ann"}', queue => 'mail', priority => 2, batch => 'march', unique_key => 'ann'`)
	enqueue(t, pool, `'mail.send', selector => '{"gpu": "a100"}', run_at => now() + interval '1 hour'`)
	failed := enqueue(t, pool, `'mail.send', queue => 'mail'`)
	_, err := pool.Exec(t.Context(), `UPDATE sched.river_job SET state = 'discarded', finalized_at = now(), attempt = 1, attempted_at = now(),
		attempted_by = '{w-3f9k2m7q4t1x}', errors = ARRAY['{"at": "2026-01-01T00:00:00Z", "attempt": 1, "error": "HTTP 500: no luck", "trace": ""}'::jsonb],
		metadata = metadata || '{"output": {"rows": 7}}' WHERE id = $1`, failed)
	require.NoError(t, err)

	var states map[string]struct{ Count int }
	ui.get(t, "/api/states", &states)
	require.Equal(t, 1, states["available"].Count)
	require.Equal(t, 1, states["scheduled"].Count)
	require.Equal(t, 1, states["discarded"].Count)

	var jobs struct {
		Data []struct {
			ID   int64  `json:"id"`
			Kind string `json:"kind"`
		} `json:"data"`
	}
	ui.get(t, "/api/jobs?state=available&kinds=mail.send&queues=mail&priorities=2", &jobs)
	require.Len(t, jobs.Data, 1)
	require.Equal(t, id, jobs.Data[0].ID)

	var job struct {
		Args        any                      `json:"args"`
		Queue       string                   `json:"queue"`
		Metadata    any                      `json:"metadata"`
		AttemptedBy []string                 `json:"attempted_by"`
		Errors      []struct{ Error string } `json:"errors"`
	}
	ui.get(t, fmt.Sprintf("/api/jobs/%d", failed), &job)
	require.Equal(t, "mail", job.Queue)
	require.Equal(t, []string{"w-3f9k2m7q4t1x"}, job.AttemptedBy)
	require.Equal(t, "HTTP 500: no luck", job.Errors[0].Error)
	require.Contains(t, fmt.Sprint(job.Metadata), "output")

	var queues struct {
		Data []struct {
			Name           string
			CountAvailable int `json:"count_available"`
		}
	}
	ui.get(t, "/api/queues?limit=100", &queues)
	require.Len(t, queues.Data, 2)
	for _, queue := range queues.Data {
		want := 0
		if queue.Name == "mail" {
			want = 1
		}
		require.Equal(t, want, queue.CountAvailable, queue.Name)
	}
	var kinds struct{ Data []string }
	ui.get(t, "/api/autocomplete?facet=job_kind&match=mail", &kinds)
	require.Equal(t, []string{"mail.send"}, kinds.Data)
}

// Every button: what it does is what the same call of River's client does, which
// the tests one directory up try on running tasks.
func TestActions(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	ui := newUI(t, pool)
	waiting, running := enqueue(t, pool, `'mail.send', queue => 'mail'`), enqueue(t, pool, `'mail.send', queue => 'mail'`)
	_, err := pool.Exec(t.Context(), `UPDATE sched.river_job SET state = 'running', attempt = 1, attempted_at = now(), attempted_by = '{w-1}' WHERE id = $1`, running)
	require.NoError(t, err)
	listener, err := pgx.Connect(t.Context(), pgtest.DSN(pool))
	require.NoError(t, err)
	defer listener.Close(t.Context())
	_, err = listener.Exec(t.Context(), `LISTEN "sched.river_control"`)
	require.NoError(t, err)
	status := func(id int64) string {
		return scalar[string](t, pool, `SELECT status::text FROM sched.task WHERE id = $1`, id)
	}
	ids := func(ids ...int64) string {
		body, err := json.Marshal(map[string]any{"ids": strings.Fields(strings.Trim(fmt.Sprint(ids), "[]"))})
		require.NoError(t, err)
		return string(body)
	}

	ui.do(t, http.MethodPost, "/api/jobs/cancel", ids(waiting, running))
	require.Equal(t, "cancelled", status(waiting))
	require.Equal(t, "running", status(running), "asked; its sidecar ends it")
	require.True(t, scalar[bool](t, pool, `SELECT metadata ? 'cancel_attempted_at' FROM sched.river_job WHERE id = $1`, running))
	for seen := false; !seen; { // one for each task that was cancelled
		notification, err := listener.WaitForNotification(t.Context())
		require.NoError(t, err)
		seen = strings.Contains(notification.Payload, fmt.Sprintf(`"job_id" : %d`, running))
	}
	ui.do(t, http.MethodPost, "/api/jobs/retry", ids(waiting))
	require.Equal(t, "available", status(waiting))
	ui.do(t, http.MethodPut, "/api/queues/mail/pause", "")
	require.True(t, scalar[bool](t, pool, `SELECT paused_at IS NOT NULL FROM sched.river_queue WHERE name = 'mail'`))
	ui.do(t, http.MethodPut, "/api/queues/mail/resume", "")
	require.False(t, scalar[bool](t, pool, `SELECT paused_at IS NOT NULL FROM sched.river_queue WHERE name = 'mail'`))
	ui.do(t, http.MethodPost, "/api/jobs/delete", ids(waiting))
	require.Zero(t, scalar[int](t, pool, `SELECT count(*) FROM sched.task WHERE id = $1`, waiting))
}

// The rights that docs/river.md grants to a client of River and to River UI.
func TestRights(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	id := enqueue(t, pool, `'mail.send', queue => 'mail'`)
	ui := newUI(t, asRiverClient(t, pool))

	for _, path := range []string{"/api/states", "/api/jobs?state=available", fmt.Sprintf("/api/jobs/%d", id), "/api/queues", "/api/queues/mail", "/api/autocomplete?facet=job_kind", "/api/health-checks/complete"} {
		ui.do(t, http.MethodGet, path, "")
	}
	body := fmt.Sprintf(`{"ids": ["%d"]}`, id)
	ui.do(t, http.MethodPost, "/api/jobs/cancel", body)
	ui.do(t, http.MethodPost, "/api/jobs/retry", body)
	ui.do(t, http.MethodPut, "/api/queues/mail/pause", "")
	ui.do(t, http.MethodPut, "/api/queues/mail/resume", "")
	ui.do(t, http.MethodPost, "/api/jobs/delete", body)
}
