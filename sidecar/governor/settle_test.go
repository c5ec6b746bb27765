package governor_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/sql/dbq"
)

// TestMixedOutcomesGoTogether: what ends at the same moment in different ways is
// written together, each as it ended; what can't be written now keeps nothing waiting.
func TestMixedOutcomesGoTogether(t *testing.T) {
	t.Parallel()
	for name, placed := range map[string]bool{"rows whose place is known": true, "rows that are looked for": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testMixedOutcomes(t, placed)
		})
	}
}

func testMixedOutcomes(t *testing.T, placed bool) {
	t.Helper()
	pool := pgtest.New(t)
	const n = 9
	outcomes := [n]jobs.Outcome{
		{Kind: jobs.OutcomeComplete},
		{Kind: jobs.OutcomeComplete, Output: json.RawMessage(`{"n": 1}`)},
		{Kind: jobs.OutcomeDiscard, Error: "x"},
		{Kind: jobs.OutcomeComplete}, // its lease is lost
		{Kind: jobs.OutcomeComplete}, // its row is locked for a while
		{Kind: jobs.OutcomeComplete, Output: json.RawMessage(`"\u0000"`)},
		{Kind: jobs.OutcomeComplete, Output: json.RawMessage(`6`)}, // of a worker that is another one
		{Kind: jobs.OutcomeComplete, Output: json.RawMessage(`7`)},
		{Kind: jobs.OutcomeComplete},
	}
	var ids [n]int64
	var settlements [n]jobs.Settlement
	for i := range n {
		worker := "w-same"
		if i == 6 {
			worker = "w-other"
		}
		enqueue(t, pool, `'k'`)
		row := claimRow(t, pool, worker)
		ids[i] = row.ID
		settlements[i] = jobs.Settlement{TaskID: row.ID, Lease: jobs.Lease{WorkerID: worker, AttemptedAt: row.AttemptedAt}, Outcome: outcomes[i]}
		if placed {
			settlements[i].Place = row.Tid
		}
	}
	exec(t, pool, `update sched.river_job set attempted_at = attempted_at + interval '1 second' where id = $1`, ids[3])
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), `select 1 from sched.river_job where id = $1 for update`, ids[4])
	require.NoError(t, err)

	settler := jobs.NewSettler(dbq.New(pool), testLogger())
	type answer struct {
		i      int
		result jobs.SettleResult
		err    error
	}
	answers := make(chan answer, n)
	for i := range n {
		settler.Begin(t.Context(), settlements[i], func(result jobs.SettleResult, err error) {
			answers <- answer{i, result, err}
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = settler.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })

	got := map[int]jobs.SettleResult{}
	for range n - 1 {
		a := <-answers
		require.NoError(t, a.err)
		got[a.i] = a.result
	}
	completed, discarded := jobs.SettleResult{Verdict: jobs.Settled, State: "completed"}, jobs.SettleResult{Verdict: jobs.Settled, State: "discarded"}
	require.Equal(t, map[int]jobs.SettleResult{
		0: completed, 1: completed, 2: discarded, 3: {Verdict: jobs.Refused}, 5: discarded, 6: completed, 7: completed, 8: completed,
	}, got)
	for i, output := range map[int]string{0: "none", 1: `{"n": 1}`, 6: "6", 7: "7", 8: "none"} {
		require.Equal(t, output, column[string](t, pool, ids[i], "coalesce(metadata ->> 'output', 'none')"))
	}
	require.Equal(t, "running", state(t, pool, ids[3]))
	require.NoError(t, tx.Rollback(t.Context()))
	require.Equal(t, answer{i: 4, result: completed}, <-answers)
}
