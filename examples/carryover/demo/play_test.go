package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/examples/carryover/books"
	"github.com/sched-sidecar/sched/internal/pgtest"
)

func TestVerdict(t *testing.T) {
	t.Parallel()
	good := books.Report{Orders: 500, Once: 500, DueCents: 7, CarriedCents: 7, Tasks: 1, Completed: 1, Rescued: 1}
	require.NoError(t, verdict(good, 500))

	require.ErrorContains(t, verdict(good, 501), "500 orders are in the books, not 501")

	unharmed := good
	unharmed.Rescued = 0
	require.ErrorContains(t, verdict(unharmed, 500), "the kill hit nothing in flight")

	lost := good
	lost.Once, lost.Lost = 499, 1
	require.ErrorContains(t, verdict(lost, 500), "1 orders were never carried")
}

func TestSampleCountsTheBatch(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	require.NoError(t, books.Create(t.Context(), pool, 10))

	s, err := takeSample(t.Context(), pool, batch)
	require.NoError(t, err)
	require.Equal(t, sample{}, s, "before the month is closed")

	_, err = pool.Exec(t.Context(), "select sched.enqueue('carryover', batch => $1) from generate_series(1, 7)", batch)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `
		select sched.enqueue('other', batch => 'another');
		insert into sched.worker (id, client_id, pid, state, heartbeat_at) values
			('w-000000000001', 'one', 71, 'active', now()),
			('w-000000000002', 'two', 72, 'active', now() - interval '9 seconds'),
			('w-000000000003', 'three', 73, 'evicted', now());
		update sched.river_job set state = 'running', attempt = 1, attempted_at = now(), attempted_by = '{w-000000000001}' where id = 1;
		update sched.river_job set state = 'running', attempt = 1, attempted_at = now(), attempted_by = '{w-000000000002}' where id = 2;
		update sched.river_job set state = 'retryable' where id = 3;
		update sched.river_job set state = 'completed', finalized_at = now() where id = 4;
		update sched.river_job set state = 'discarded', finalized_at = now() where id = 5;
		insert into sched.attempt_log (task_id, attempt, worker_id, started_at, ended_at, outcome)
			values (6, 1, 'w-000000000003', now(), now(), 'rescued');
		insert into books.carried values (1, '2026-11', 1, 4, 1), (2, '2026-11', 1, 4, 1)`)
	require.NoError(t, err)

	s, err = takeSample(t.Context(), pool, batch)
	require.NoError(t, err)
	require.Equal(t, sample{
		Carried: 2, Total: 7, Available: 2, Running: 2, Retryable: 1, Completed: 1, Failed: 1, Rescued: 1, Alive: 1,
	}, s)

	for pid, want := range map[int]int{71: 1, 72: 1, 73: 0, 74: 0} {
		got, err := ask[int](t.Context(), pool, inFlightSQL, pid)
		require.NoError(t, err)
		require.Equal(t, want, got, pid)
	}
	for pid, want := range map[int]bool{71: true, 73: false, 74: false} {
		got, err := ask[bool](t.Context(), pool, activeSQL, pid)
		require.NoError(t, err)
		require.Equal(t, want, got, pid)
	}
}

func TestLeaderIsFoundByItsProcess(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	_, err := pool.Exec(t.Context(), `
		insert into sched.worker (id, pid, state, client_id) values ('w-000000000001', 71, 'active', 'one'), ('w-000000000002', 72, 'active', 'two');
		insert into sched.river_leader (elected_at, expires_at, leader_id) values (now(), now() + interval '10 seconds', 'two')`)
	require.NoError(t, err)
	for pid, want := range map[int]bool{71: false, 72: true, 73: false} {
		got, err := ask[bool](t.Context(), pool, leadsSQL, pid)
		require.NoError(t, err)
		require.Equal(t, want, got, pid)
	}
}

func TestDiagnosisQueriesRun(t *testing.T) {
	t.Parallel()
	s, out, _ := testScreen(false)
	st := newStage(options{}, s)
	st.pool = pgtest.New(t)
	_, err := st.pool.Exec(t.Context(), `
		select sched.enqueue('carryover');
		insert into sched.worker (id, client_id, pid, state) values ('w-000000000001', 'one', 71, 'active');
		insert into sched.attempt_log (task_id, attempt, worker_id, started_at, ended_at, outcome, error)
			values (1, 1, 'w-000000000001', now(), now(), 'retry', 'connection refused')`)
	require.NoError(t, err)

	diagnose(t.Context(), st)
	require.NotContains(t, out.String(), "can't tell")
	require.Contains(t, out.String(), "available: 1")
	require.Contains(t, out.String(), "w-000000000001 pid 71 active")
	require.Contains(t, out.String(), "connection refused")
}

func TestAMonthThatIsNotClosedIsSaid(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status int
		body   string
		found  string
	}{
		"refused":  {http.StatusInternalServerError, "", "app A answered 500"},
		"no JSON":  {http.StatusOK, "hello", "close the month"},
		"too few":  {http.StatusOK, `{"orders": 499, "batches": 1}`, "marked 499 orders of 500"},
		"complete": {http.StatusOK, `{"orders": 500, "batches": 1}`, ""},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(test.status)
			_, _ = w.Write([]byte(test.body))
		}))
		t.Cleanup(server.Close)
		s, _, _ := testScreen(false)
		st := newStage(options{orders: 500}, s)
		st.pairs = []*pair{{appAddr: strings.TrimPrefix(server.URL, "http://")}}

		err := closeMonth(t.Context(), st)
		if test.found == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, test.found, name)
	}
}

func TestTickEndsWithItsContext(t *testing.T) {
	t.Parallel()
	st := newStage(options{}, &screen{})
	require.NoError(t, st.tick(t.Context()))

	over := errors.New("not done within the limit")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(over)
	require.ErrorIs(t, st.tick(ctx), over)
}
