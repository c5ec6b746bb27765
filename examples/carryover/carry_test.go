package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/examples/carryover/books"
	"github.com/sched-sidecar/sched/internal/pgtest"
)

// setup is a shop with its books and the schema sched, and an app in front.
func setup(t *testing.T, orders int, pace time.Duration) (*pgxpool.Pool, *httptest.Server) {
	t.Helper()
	pool := pgtest.New(t)
	require.NoError(t, books.Create(t.Context(), pool, orders))
	s := &shop{pool: pool, pace: pace, pid: 4711, log: slog.New(slog.DiscardHandler)}
	server := httptest.NewServer(s.routes())
	t.Cleanup(server.Close)
	return pool, server
}

// claimSQL takes the first waiting task as a sidecar would.
const claimSQL = `
update sched.river_job
set state = 'running', attempt = attempt + 1, attempted_at = clock_timestamp(), attempted_by = array_append(attempted_by, 'w-000000000001')
where id = (select id from sched.river_job where state = 'available' order by id limit 1 for update skip locked)
returning id, attempt, args, 'w-000000000001.' || (extract(epoch from attempted_at) * 1000000)::bigint`

// claimed is a task as a sidecar holds it.
type claimed struct {
	id      int64
	attempt int
	args    []byte
	lease   string
}

func claim(t *testing.T, pool *pgxpool.Pool) claimed {
	t.Helper()
	var c claimed
	require.NoError(t, pool.QueryRow(t.Context(), claimSQL).Scan(&c.id, &c.attempt, &c.args, &c.lease))
	return c
}

// dispatch posts a task as a sidecar does.
func dispatch(ctx context.Context, server *httptest.Server, c claimed) (status int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/carryover", bytes.NewReader(c.args))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Sched-Task-Id", strconv.FormatInt(c.id, 10))
	request.Header.Set("Sched-Attempt", strconv.Itoa(c.attempt))
	request.Header.Set("Sched-Lease", c.lease)
	return do(request)
}

func do(request *http.Request) (status int, body string, err error) {
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	var text bytes.Buffer
	_, err = text.ReadFrom(response.Body)
	return response.StatusCode, text.String(), err
}

func closeMonth(t *testing.T, server *httptest.Server, query string) (status int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/month-end"+query, nil)
	require.NoError(t, err)
	status, body, err = do(request)
	require.NoError(t, err)
	return status, body
}

func count(t *testing.T, pool *pgxpool.Pool, query string) int {
	t.Helper()
	var n int
	require.NoError(t, pool.QueryRow(t.Context(), query).Scan(&n))
	return n
}

func TestMonthEndIsCarriedExactlyOnce(t *testing.T) {
	t.Parallel()
	pool, server := setup(t, 1201, 0)

	status, body := closeMonth(t, server, "?month=2026-11")
	require.Equal(t, http.StatusOK, status, body)
	require.JSONEq(t, `{"month": "2026-11", "batches": 3, "orders": 1201}`, body)

	for range 3 {
		c := claim(t, pool)
		status, body, err := dispatch(t.Context(), server, c)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status, body)
		var stored []byte
		require.NoError(t, pool.QueryRow(t.Context(), "select output from sched.task where id = $1", c.id).Scan(&stored))
		require.JSONEq(t, body, string(stored), "the answer is the task's output")
	}

	report, err := books.Check(t.Context(), pool)
	require.NoError(t, err)
	require.Empty(t, report.Problems())
	require.Equal(t, int64(1201), report.Once)
	require.Equal(t, int64(3), report.Started)
}

func TestMonthEndAgainFindsNothingOpen(t *testing.T) {
	t.Parallel()
	pool, server := setup(t, 600, 0)

	_, _ = closeMonth(t, server, "?month=2026-11")
	status, body := closeMonth(t, server, "?month=2026-11")
	require.Equal(t, http.StatusOK, status, body)
	require.JSONEq(t, `{"month": "2026-11", "batches": 0, "orders": 0}`, body)
	require.Equal(t, 2, count(t, pool, "select count(*) from sched.task"))
}

func TestTwoMonthEndsAtOnceShareTheOrders(t *testing.T) {
	t.Parallel()
	pool, server := setup(t, 3000, 0)

	var total int
	results := make(chan closed)
	for range 2 {
		go func() {
			var c closed
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/month-end?month=2026-11", nil)
			if err == nil {
				var body string
				if _, body, err = do(request); err == nil {
					err = json.Unmarshal([]byte(body), &c)
				}
			}
			if err != nil {
				c.Orders = -1
			}
			results <- c
		}()
	}
	for range 2 {
		total += (<-results).Orders
	}
	require.Equal(t, 3000, total)
	for count(t, pool, "select count(*) from sched.task where status = 'available'") > 0 {
		status, body, err := dispatch(t.Context(), server, claim(t, pool))
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status, body)
	}
	report, err := books.Check(t.Context(), pool)
	require.NoError(t, err)
	require.Empty(t, report.Problems())
}

func TestMonthMustBeOne(t *testing.T) {
	t.Parallel()
	pool, server := setup(t, 1, 0)

	for _, query := range []string{"", "?month=", "?month=2026-13", "?month=november"} {
		status, body := closeMonth(t, server, query)
		require.Equal(t, http.StatusBadRequest, status, query)
		require.Contains(t, body, "?month=2026-11", query)
	}
	require.Zero(t, count(t, pool, "select count(*) from sched.task"))
}

func TestASecondRunOfATaskLeavesNoEffect(t *testing.T) {
	t.Parallel()
	pool, server := setup(t, 500, 0)
	_, _ = closeMonth(t, server, "?month=2026-11")
	c := claim(t, pool)

	status, body, err := dispatch(t.Context(), server, c)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, body)
	status, body, err = dispatch(t.Context(), server, c)
	require.NoError(t, err)
	require.Equal(t, http.StatusConflict, status, body)

	require.Equal(t, 500, count(t, pool, "select count(*) from books.carried"))
	require.Equal(t, 2, count(t, pool, "select count(*) from books.audit"), "the audit trail keeps both")
}

func TestAStaleLeaseLeavesNoEffect(t *testing.T) {
	t.Parallel()
	pool, server := setup(t, 500, 0)
	_, _ = closeMonth(t, server, "?month=2026-11")
	c := claim(t, pool)
	_, err := pool.Exec(t.Context(), "update sched.river_job set state = 'available'")
	require.NoError(t, err)
	again := claim(t, pool)

	status, body, err := dispatch(t.Context(), server, c)
	require.NoError(t, err)
	require.Equal(t, http.StatusConflict, status, body)
	require.Zero(t, count(t, pool, "select count(*) from books.carried"))
	require.Equal(t, 500, count(t, pool, "select count(*) from books.orders where status = 'PROCESSING'"))

	status, body, err = dispatch(t.Context(), server, again)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, body)
	require.Equal(t, 500, count(t, pool, "select count(*) from books.carried where attempt = 2"))
}

func TestASidecarThatGoesAwayRollsBack(t *testing.T) {
	t.Parallel()
	pool, server := setup(t, 500, time.Hour)
	_, _ = closeMonth(t, server, "?month=2026-11")
	c := claim(t, pool)

	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, _, err := dispatch(ctx, server, c)
		gone <- err
	}()
	const atWork = "select count(*) from pg_stat_activity where datname = current_database() and state = 'idle in transaction'"
	require.Eventually(t, func() bool { return count(t, pool, atWork) == 1 }, time.Minute, 10*time.Millisecond)
	cancel()
	require.ErrorIs(t, <-gone, context.Canceled)
	require.Eventually(t, func() bool { return count(t, pool, atWork) == 0 }, time.Minute, 10*time.Millisecond)

	require.Zero(t, count(t, pool, "select count(*) from books.carried"))
	require.Equal(t, 1, count(t, pool, "select count(*) from books.audit"))
	require.Equal(t, 1, count(t, pool, "select count(*) from sched.task where status = 'running'"))
}

func TestBadTasksAreRefusedForGood(t *testing.T) {
	t.Parallel()
	pool, server := setup(t, 1, 0)

	good := claimed{id: 1, attempt: 1, lease: "w-000000000001.1", args: []byte(`{"batch": 1, "from_id": 1, "to_id": 1}`)}
	for name, test := range map[string]struct {
		change func(c *claimed)
		status int
	}{
		"no lease":       {func(c *claimed) { c.lease = "" }, http.StatusBadRequest},
		"no JSON":        {func(c *claimed) { c.args = []byte("hello") }, http.StatusBadRequest},
		"args of a kind": {func(c *claimed) { c.args = []byte(`{"batch": "one"}`) }, http.StatusBadRequest},
		"args too long":  {func(c *claimed) { c.args = []byte(`"` + strings.Repeat("x", maxBody) + `"`) }, http.StatusBadRequest},
		"no such orders": {func(c *claimed) { c.args = []byte(`{"batch": 9, "from_id": 1, "to_id": 1}`) }, http.StatusUnprocessableEntity},
	} {
		c := good
		test.change(&c)
		status, body, err := dispatch(t.Context(), server, c)
		require.NoError(t, err, name)
		require.Equal(t, test.status, status, "%s: %s", name, body)
	}
	require.Zero(t, count(t, pool, "select count(*) from books.carried"))
}

func TestBalance(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ total, paid, want int64 }{
		{1000, 1000, 0},
		{1000, 1400, -400}, // a credit bears no interest
		{1000, 0, 1005},
		{100, 1, 99},  // 0.495 cents of interest
		{101, 1, 101}, // 0.5 cents, rounded up
		{250_999, 0, 252_254},
	} {
		require.Equal(t, test.want, balance(test.total, test.paid), "%d - %d", test.total, test.paid)
	}
}
