package console_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/sidecar/console"
)

// hostile is what a kind can't be called, but all else can.
const hostile = `"><script>alert('x')</script><img src=x onerror=alert(1)>`

func pages() []string {
	return []string{
		"/console/", "/console/workers", "/console/workers?ended=yes", "/console/queues", "/console/tasks", "/console/decisions", "/console/interventions",
	}
}

// fill makes one of everything, called as badly as may be.
func fill(b *bundle) {
	b.t.Helper()
	b.exec(`INSERT INTO sched.worker (id, client_id, hostname, app_url, version, labels, state, running, slots, ceiling, load_percent, holds, health, reason)
		VALUES ('w-one', 'c', $1, $1, $1, jsonb_build_object('zone', $1::text, $1::text, 'a'), 'active', 3, 4, 8, 42, ARRAY[$1], 'good', NULL),
			('w-two', 'c', 'two', 'http://two', 'v', '{}', 'active', 0, 4, 4, 0, '{}', 'good', NULL)`, hostile)
	b.exec(`INSERT INTO sched.worker (id, client_id, hostname, state, ended_at, reason) VALUES ('w-gone', 'c', 'gone', 'evicted', now(), $1)`, hostile)
	b.exec(`SELECT sched.enqueue('mail', jsonb_build_object('to', $1::text), queue => 'letters', batch => $1, headers => jsonb_build_object('note', $1::text)),
		sched.enqueue('render', selector => jsonb_build_object('gpu', $1::text))`, hostile)
	b.exec(`SELECT sched.discover_queues()`)
	b.exec(`UPDATE sched.river_job SET state = 'retryable', attempt = 2, attempted_at = now() - interval '2 seconds', attempted_by = '{w-gone,w-one}', scheduled_at = now() + interval '1 minute',
		errors = ARRAY[jsonb_build_object('at', now(), 'attempt', 2, 'error', $1::text, 'trace', '')] WHERE kind = 'mail'`, hostile)
	b.exec(`INSERT INTO sched.attempt_log (task_id, attempt, worker_id, started_at, ended_at, outcome, error)
		SELECT id, 1, 'w-gone', now() - interval '5 seconds', now() - interval '4 seconds', 'rescued', $1 FROM sched.river_job WHERE kind = 'mail'`, hostile)
	b.exec(`INSERT INTO sched.assignment (queue, worker_id, weight, reason, version) VALUES ('letters', 'w-one', 75, $1, 1), ('letters', 'w-two', 25, 'labels match', 1)`, hostile)
	b.exec(`INSERT INTO sched.decision (what, subject, who, from_value, to_value, reason, signals) VALUES ('pressure', 'letters', 'w-one', 'green', 'red', $1, jsonb_build_object('x', $1::text))`, hostile)
	b.exec(`UPDATE sched.queue SET max_running = 7, description = $1 WHERE name = 'letters'`, hostile)
}

func (b *bundle) taskID(kind string) int64 {
	b.t.Helper()
	var id int64
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), "SELECT id FROM sched.task WHERE kind = $1", kind).Scan(&id))
	return id
}

func TestPagesOfAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for path, empty := range map[string]string{
		"/console/": "No worker is alive", "/console/workers": "No worker is alive", "/console/queues": "There are no queues yet",
		"/console/tasks": "There are no tasks yet", "/console/decisions": "Nothing was decided yet", "/console/interventions": "Nobody intervened yet",
		"/console/tasks?kind=none": "No task is like that", "/console/tasks?status=running": "No task is like that", "/console/tasks?batch=x": "No task is like that",
		"/console/tasks?status=odd": `There is no status "odd"`, "/console/decisions?subject=x": "No decision is like that", "/console/interventions?what=task": "No intervention is like that",
	} {
		require.Contains(t, b.page(path).text("main"), empty, path)
	}
	for path, missing := range map[string]string{
		"/console/tasks/1": "There is no task 1", "/console/tasks/one": "A task's id is a number", "/console/workers/w-none": "No worker is registered as w-none",
		"/console/queues/none": "There is no queue called none", "/console/other": "Nothing of the console is at this address",
	} {
		a := b.get(path)
		require.Equal(t, http.StatusNotFound, a.status, path)
		require.Contains(t, a.text("main"), missing, path)
	}
	require.Equal(t, http.StatusMethodNotAllowed, b.request(http.MethodPost, "/console/tasks", nil, nil).status)
}

func TestPagesShowWhatThereIs(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *console.Config) { c.RiverUIURL = "http://127.0.0.1:8089/ui" })
	fill(b)
	task := fmt.Sprintf("/console/tasks/%d", b.taskID("mail"))
	for path, shown := range map[string][]string{
		"/console/":                               {"3 of 8 slots", "held back", "letters", "3 of 4, ceiling 8", "green → to red"},
		"/console/workers":                        {"2 workers", "w-one", "42 %", "1 queue letters", "zone"},
		"/console/workers?ended=yes":              {"3 workers", "w-gone", "evicted"},
		"/console/workers/w-one":                  {"it is woken", "letters", "75", "process 0"},
		"/console/queues":                         {"letters", "7 at once", "1 to retry", "gpu"},
		"/console/queues/letters":                 {"75 %", "25 %", "w-two", "green → to red"},
		"/console/tasks":                          {"mail", "render", "retryable", "2 of 25"},
		"/console/tasks?status=retryable":         {"1 task, the soonest first", "mail"},
		"/console/tasks?status=available":         {"1 task, in the order in which each queue starts them", "render"},
		"/console/tasks?kind=mail&worker=w-one":   {"1 task, the newest first"},
		"/console/tasks?queue=letters":            {"mail"},
		task:                                      {"is retryable", "in order", "rescued", "w-gone", "2 of 25", "note"},
		"/console/decisions":                      {"1 decision, the latest first", "green → to red"},
		"/console/decisions?what=pressure":        {"letters"},
		"/console/interventions":                  {"update", "max_running", "7"},
		"/console/interventions?subject=letters":  {"queue letters"},
		"/console/tasks?batch=" + "%22%3E%3Cscri": {"No task is like that"},
	} {
		text := b.page(path).text("main")
		for _, each := range shown {
			require.Contains(t, text, each, path)
		}
	}
	require.Contains(t, b.page("/console/").text("footer"), "River UI")
	require.Equal(t, task, b.followed("/console/tasks?id=%23"+strings.TrimPrefix(task, "/console/tasks/")))
}

// followed is where a request was led.
func (b *bundle) followed(path string) string {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, b.url+path, nil)
	require.NoError(b.t, err)
	response, err := b.client.Do(r)
	require.NoError(b.t, err)
	defer response.Body.Close()
	return response.Request.URL.RequestURI()
}

// Whatever people call things, a page has its own scripts and no others, and says
// what a browser may do with it.
func TestPagesAreSafe(t *testing.T) {
	t.Parallel()
	b := setup(t)
	fill(b)
	all := append(pages(), fmt.Sprintf("/console/tasks/%d", b.taskID("mail")), fmt.Sprintf("/console/tasks/%d", b.taskID("render")), "/console/workers/w-one",
		"/console/workers/w-gone", "/console/queues/letters", "/console/tasks?kind=%22%3E%3Cscript%3E", "/console/decisions?subject=%3Cscript%3E")
	said := 0
	for _, path := range all {
		a := b.page(path)
		csp := a.header.Get("Content-Security-Policy")
		require.Contains(t, csp, "default-src 'none'", path)
		require.Contains(t, csp, "frame-ancestors 'none'", path)
		require.NotContains(t, csp, "unsafe", path)
		require.Equal(t, "nosniff", a.header.Get("X-Content-Type-Options"), path)
		require.Equal(t, "no-referrer", a.header.Get("Referrer-Policy"), path)
		require.Equal(t, "no-store", a.header.Get("Cache-Control"), path)
		said += strings.Count(a.text("main"), hostile)
		require.Empty(t, a.all("img"), path)
		for _, script := range a.all("script") {
			require.True(t, strings.HasPrefix(attr(script, "src"), "/console/static/"), path)
			require.Nil(t, script.FirstChild, path)
		}
		require.Len(t, a.all("script"), 4, path)
		for node := range a.root.Descendants() {
			for _, each := range node.Attr {
				require.NotEqual(t, "style", each.Key, path)
				require.False(t, strings.HasPrefix(each.Key, "on"), "%s: %s", path, each.Key)
			}
		}
	}
	require.Positive(t, said, "what is hostile is shown as text")
}

// What a page is made of, for keyboards and screen readers.
func TestPagesHaveLandmarks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	fill(b)
	for _, path := range append(pages(), fmt.Sprintf("/console/tasks/%d", b.taskID("mail"))) {
		a := b.page(path)
		require.Len(t, a.all("main"), 1, path)
		require.Len(t, a.all("h1"), 1, path)
		require.Equal(t, "en", attr(a.all("html")[0], "lang"), path)
		require.Len(t, a.all("table"), len(a.all("caption")), path)
		ids := map[string]bool{}
		for node := range a.root.Descendants() {
			if id := attr(node, "id"); id != "" {
				require.False(t, ids[id], "%s: id %s twice", path, id)
				ids[id] = true
			}
		}
		for _, label := range a.all("label") {
			require.True(t, ids[attr(label, "for")], path)
		}
	}
}

func TestAssets(t *testing.T) {
	t.Parallel()
	b := setup(t)
	found := 0
	for _, script := range b.page("/console/").all("script") {
		a := b.get(attr(script, "src"))
		require.Equal(t, http.StatusOK, a.status)
		require.Equal(t, "text/javascript; charset=utf-8", a.header.Get("Content-Type"))
		require.Contains(t, a.header.Get("Cache-Control"), "immutable")
		found++
	}
	require.Equal(t, 4, found)
	require.Equal(t, http.StatusNotFound, b.get("/console/static/000000000000/console.js").status)
	require.Equal(t, http.StatusNotFound, b.get("/console/static/../access.go").status)
}

// A rare kind costs a bounded look, and one can look further.
func TestTasksAreLookedAtUpToABound(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(`INSERT INTO sched.river_job (kind, args) SELECT CASE WHEN g = 1 THEN 'rare' ELSE 'common' END, '{}' FROM generate_series(1, 25000) AS g`)
	first := b.page("/console/tasks?kind=rare")
	require.Contains(t, first.text("main"), "None among these 20 000 tasks")
	var older string
	for _, a := range first.all("a") {
		if attr(a, "rel") == "next" {
			older = attr(a, "href")
		}
	}
	require.NotEmpty(t, older)
	require.Contains(t, b.page("/console/tasks"+older).text("tbody"), "rare")
	require.Contains(t, b.page("/console/tasks").text("caption"), "50 tasks")
}

// What the role may not read is told, and everything else is shown.
func TestRightsThatAreMissing(t *testing.T) {
	t.Parallel()
	owner := pgtest.New(t)
	owns := &bundle{t: t, pool: owner}
	owns.exec(`SELECT sched.enqueue('mail')`)
	config := owner.Config()
	config.AfterConnect = nil
	config.ConnConfig.RuntimeParams["role"] = "sched_auditor"
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	b := serve(t, pool)
	require.Contains(t, b.page("/console/").text("main"), "Not readable")
	require.Contains(t, b.page("/console/decisions").text("main"), "Nothing was decided yet")
	require.Contains(t, b.page("/console/tasks").text("main"), "mail")
	require.Contains(t, b.page(fmt.Sprintf("/console/tasks/%d", owns.taskID("mail"))).text("main"), "is available")
	config = owner.Config()
	config.ConnConfig.RuntimeParams["role"] = "sched_producer"
	producer, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(t, err)
	t.Cleanup(producer.Close)
	b = serve(t, producer)
	for _, path := range pages() {
		require.Contains(t, b.page(path).text("main"), "Not readable", path)
	}
}

// What is no text in an address is the asker's mistake: Postgres isn't asked.
func TestAddressesThatAreNoText(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, path := range []string{"/console/workers/%00", "/console/workers/%ff", "/console/queues/a%00b", "/console/queues/%c3", "/console/tasks/%ff", "/console/%00"} {
		a := b.get(path)
		require.Equal(t, http.StatusNotFound, a.status, path)
		require.Contains(t, a.text("main"), "No such page", path)
	}
	for _, path := range []string{
		"/console/tasks?kind=%ff", "/console/tasks?queue=a%00", "/console/tasks?status=available&before=1.1.1.%ff", "/console/tasks?id=%00", "/console/tasks?batch=%c3%28",
		"/console/decisions?subject=%ff", "/console/decisions?what=%00", "/console/interventions?subject=%00", "/console/workers?ended=%ff",
	} {
		a := b.get(path)
		require.Equal(t, http.StatusBadRequest, a.status, path)
		require.Contains(t, a.text("main"), "bytes that are no text", path)
	}
	require.Contains(t, b.page("/console/tasks?kind=%C3%BCber").text("main"), "No task is like that")
}

func TestPostgresIsAway(t *testing.T) {
	t.Parallel()
	config, err := pgxpool.ParseConfig("postgres://127.0.0.1:1/none?connect_timeout=1")
	require.NoError(t, err)
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	b := serve(t, pool)
	for _, path := range append(pages(), "/console/tasks/1", "/console/workers/w", "/console/queues/q") {
		a := b.get(path)
		require.Equal(t, http.StatusServiceUnavailable, a.status, path)
		require.Contains(t, a.text("main"), "Postgres does not answer", path)
		require.Equal(t, "3", attr(a.all("body")[0], "data-refresh"), path)
	}
}
