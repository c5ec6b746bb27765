//go:build verify

package riverui_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/devpg"
	"github.com/sched-sidecar/sched/internal/pgtest"
)

const (
	millionRows = 1_000_000
	rounds      = 5
	// usable is how many milliseconds a person waits for a page without wondering,
	// on a machine with nothing else to do.
	usable = 2000
	// patient is how many they wait at most for the whole answer.
	patient = 5000
)

// fill makes rows as a busy fleet leaves them: what has ended is old, what waits
// is new, so that a page of waiting tasks in the order of their ids lies behind
// all that has ended.
const fill = `INSERT INTO sched.river_job (kind, queue, state, args, metadata, priority, attempt, created_at, scheduled_at, attempted_at, attempted_by, finalized_at, errors)
SELECT 'kind-' || n % 50, 'queue-' || n % 20, state, jsonb_build_object('order', n, 'customer', md5(n::text)),
	jsonb_build_object('sched:by', jsonb_build_object('user', 'shop', 'app', 'web')), 1 + n % 4, started::int, at,
	CASE WHEN state IN ('scheduled', 'retryable') THEN now() + n % 100000 * interval '1 s' ELSE at END,
	CASE WHEN started THEN at END, CASE WHEN started THEN '{w-3f9k2m7q4t1x}'::text[] END,
	CASE WHEN state IN ('completed', 'cancelled', 'discarded') THEN at END,
	CASE WHEN state IN ('retryable', 'discarded') THEN ARRAY[jsonb_build_object('at', at, 'attempt', 1, 'error', 'HTTP 500: no luck', 'trace', '')] END
FROM (
	SELECT n, now() - ($1 - n) * interval '1 ms' AS at, (CASE
		WHEN n <= $1 * 0.55 THEN CASE WHEN n % 25 = 0 THEN 'cancelled' WHEN n % 20 = 1 THEN 'discarded' ELSE 'completed' END
		WHEN n <= $1 * 0.552 THEN 'running'
		WHEN n <= $1 * 0.65 THEN 'scheduled'
		WHEN n <= $1 * 0.70 THEN 'retryable'
		WHEN n <= $1 * 0.701 THEN 'pending'
		ELSE 'available'
	END)::sched.river_job_state AS state
	FROM generate_series(1, $1::int) AS n
) AS row, LATERAL (SELECT state NOT IN ('available', 'scheduled', 'pending') AS started) AS s`

// figure is a line of docs/verify.md.
type figure struct {
	Name   string  `json:"figure"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Bound  string  `json:"bound"`
	OK     bool    `json:"ok"`
	Rounds int     `json:"rounds"`
}

// request is one of those that the pages send.
type request struct {
	method, path, body string
}

func TestVerifyAMillionHotRows(t *testing.T) {
	t.Parallel()
	if _, err := usageOf(os.Getpid()); err != nil {
		t.Skipf("what a process has had is read from /proc: %v", err)
	}
	// A server as it comes, not the tests' one, which keeps everything in memory.
	server, err := devpg.Start(t.Context(), devpg.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	pool := pgtest.NewOn(t, server)
	for n := range 20 {
		enqueue(t, pool, fmt.Sprintf(`'kind-0', queue => 'queue-%d'`, n))
	}
	_, err = pool.Exec(t.Context(), `TRUNCATE sched.river_job RESTART IDENTITY`) // the queues stay
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), fill, millionRows)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `VACUUM ANALYZE sched.river_job`)
	require.NoError(t, err)
	db := single(t, pool)
	// River UI keeps the counts for a while: this is what its first visitor waits for.
	anew := func() (*riverUI, func()) {
		ui := newUI(t, db.pool)
		return ui, ui.stop // it counts again every few seconds
	}
	figures := db.worst(t, anew, "riverui.states", []request{{http.MethodGet, "/api/states", ""}})
	ui := newUI(t, db.pool)
	same := func() (*riverUI, func()) { return ui, func() {} }

	lists, filtered := listRequests()
	get := func(paths ...string) (requests []request) {
		for _, path := range paths {
			requests = append(requests, request{http.MethodGet, path, ""})
		}
		return requests
	}
	some := millionRows / 2
	for _, group := range []struct {
		name     string
		requests []request
	}{
		{"jobs", lists},
		{"jobs_filtered", filtered},
		{"job", get(fmt.Sprintf("/api/jobs/%d", some))},
		{"queues", get("/api/queues?limit=100", "/api/queues/queue-7")},
		{"kinds", get("/api/autocomplete?facet=job_kind&match=kind-4", "/api/autocomplete?facet=job_kind")},
		{"queue_names", get("/api/autocomplete?facet=queue_name&match=queue-1")},
		{"actions", []request{
			{http.MethodPost, "/api/jobs/cancel", fmt.Sprintf(`{"ids": ["%d"]}`, millionRows-1)},
			{http.MethodPost, "/api/jobs/retry", fmt.Sprintf(`{"ids": ["%d"]}`, some)},
			{http.MethodPut, "/api/queues/queue-7/pause", ""},
			{http.MethodPut, "/api/queues/queue-7/resume", ""},
		}},
	} {
		figures = append(figures, db.worst(t, same, "riverui."+group.name, group.requests)...)
	}

	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for _, f := range figures {
		require.NoError(t, out.Encode(f))
	}
	requireDocumented(t, figures)
	for _, f := range figures {
		require.True(t, f.OK, "%+v", f)
	}
}

// listRequests are the pages of each status, and the same with each filter, of
// which some match nothing: then everything is read.
func listRequests() (lists, filtered []request) {
	lists = append(lists, request{http.MethodGet, "/api/jobs?limit=20", ""})
	for _, state := range []string{"available", "scheduled", "retryable", "running", "pending", "completed", "cancelled", "discarded"} {
		page := "/api/jobs?limit=20&state=" + state
		lists = append(lists, request{http.MethodGet, page, ""})
		for _, filter := range []string{"kinds=kind-7", "kinds=no-such-kind", "queues=queue-7", "priorities=4", "tags=no-such-tag"} {
			filtered = append(filtered, request{http.MethodGet, page + "&" + filter, ""})
		}
	}
	return lists, filtered
}

// database is one whose queries all run in one process of the server, without
// helpers, so that its CPU time is what a query takes with a core to itself,
// whatever else the machine does meanwhile.
type database struct {
	pool *pgxpool.Pool
}

func single(t *testing.T, pool *pgxpool.Pool) database {
	t.Helper()
	config := pool.Config().Copy()
	config.MaxConns = 1
	config.MaxConnLifetime = 0
	config.ConnConfig.RuntimeParams["max_parallel_workers_per_gather"] = "0"
	only, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(only.Close)
	return database{only}
}

// process is the server's, which is another one after a request that River UI gave
// up: that closes the connection.
func (d database) process(t *testing.T) int {
	t.Helper()
	return scalar[int](t, d.pool, `SELECT pg_backend_pid()`)
}

// usage is what a process has had of the machine so far, in milliseconds.
type usage struct {
	cpu     float64
	delayed float64 // it was ready to run, and others ran
}

func usageOf(pid int) (usage, error) {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
	if err != nil {
		return usage{}, err
	}
	var cpu, delayed int64 // in nanoseconds
	if _, err := fmt.Sscan(string(line), &cpu, &delayed); err != nil {
		return usage{}, fmt.Errorf("schedstat %q: %w", line, err)
	}
	return usage{float64(cpu) / 1e6, float64(delayed) / 1e6}, nil
}

// watch follows a process until it's told to stop, and then returns how much more it
// has had: to its end, but for a moment, should that have come first.
func watch(t *testing.T, pid int) (stop func() usage) {
	t.Helper()
	before, err := usageOf(pid)
	require.NoError(t, err)
	last := before
	look := func() {
		if u, err := usageOf(pid); err == nil {
			last = u
		}
	}
	stopped, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stopped:
				return
			case <-tick.C:
				look()
			}
		}
	}()
	return func() usage {
		close(stopped)
		<-done
		look()
		return usage{last.cpu - before.cpu, last.delayed - before.delayed}
	}
}

// worst sends each request a few times and returns the largest of their medians:
// of the CPU time in Postgres, and of how long the answer took to come.
func (d database) worst(t *testing.T, visit func() (ui *riverUI, leave func()), name string, requests []request) []figure {
	t.Helper()
	cpu := figure{Name: name + ".pg_ms", Unit: "ms", Bound: fmt.Sprintf("<= %d", usable), Rounds: rounds}
	wait := figure{Name: name + ".wait_ms", Unit: "ms", Bound: fmt.Sprintf("<= %d", patient), Rounds: rounds}
	for _, r := range requests {
		spent, waited := make([]float64, rounds), make([]float64, rounds)
		for i := range rounds {
			ui, leave := visit()
			spent[i], waited[i] = d.measure(t, ui, r)
			leave()
		}
		slices.Sort(spent)
		slices.Sort(waited)
		t.Logf("%s %s: %v ms of CPU in Postgres, %v ms waited, medians of %d", r.method, r.path, spent[rounds/2], waited[rounds/2], rounds)
		cpu.Value = max(cpu.Value, spent[rounds/2])
		wait.Value = max(wait.Value, waited[rounds/2])
	}
	cpu.OK, wait.OK = cpu.Value <= usable, wait.Value <= patient
	return []figure{cpu, wait}
}

// measure sends a request, and again where River UI itself gave up: after 10 s,
// which a machine that is much too busy brings it to. That counts as waiting, but for
// how long Postgres would have run and others did.
func (d database) measure(t *testing.T, ui *riverUI, r request) (spent, waited float64) {
	t.Helper()
	const tries = 10
	pid := d.process(t)
	started := time.Now()
	for try := 1; ; try++ {
		stop := watch(t, pid)
		status, reply := ui.send(t, r.method, r.path, r.body)
		had := stop()
		waited -= had.delayed
		if status == http.StatusServiceUnavailable && try < tries {
			t.Logf("%s %s: River UI gave up: the machine is busy", r.method, r.path)
			pid = d.process(t)
			continue
		}
		require.Equal(t, http.StatusOK, status, "%s %s: %s", r.method, r.path, reply)
		return had.cpu, waited + float64(time.Since(started).Microseconds())/1000
	}
}

// requireDocumented holds docs/verify.md to the figures, and the other way round.
func requireDocumented(t *testing.T, figures []figure) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/verify.md")
	require.NoError(t, err)
	var documented, measured []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(riverui\\.[^`]+)` \\| ms \\| ([^|]+) \\|").FindAllStringSubmatch(string(page), -1) {
		documented = append(documented, row[1]+" "+row[2])
	}
	for _, f := range figures {
		measured = append(measured, f.Name+" "+f.Bound)
	}
	require.Equal(t, measured, documented)
}
