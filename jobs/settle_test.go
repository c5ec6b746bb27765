package jobs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/sql/dbq"
)

// settleRecorder is a database that settles everything, and notes how much came at once.
type settleRecorder struct {
	dbq.Querier
	mu      sync.Mutex
	calls   int
	largest int
}

func (r *settleRecorder) TaskSettle(_ context.Context, params dbq.TaskSettleParams) ([]dbq.TaskSettleRow, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	size := 0
	rows := make([]dbq.TaskSettleRow, len(params.Ids))
	for i := range rows {
		size += len(params.Outputs[i]) + len(params.Errors[i])
		rows[i] = dbq.TaskSettleRow{ID: params.Ids[i], WorkerID: params.WorkerIds[i], AttemptedAt: params.AttemptedAts[i], Verdict: "settled"}
	}
	r.largest = max(r.largest, size)
	return rows, nil
}

func (r *settleRecorder) TaskComplete(_ context.Context, params dbq.TaskCompleteParams) ([]int32, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	size := 0
	for _, output := range params.Outputs {
		size += len(output)
	}
	r.largest = max(r.largest, size)
	return params.Numbers, nil
}

// Postgres takes no message over 1 GB, and a statement with hundreds of MB takes
// longer than a settle may: one that failed for its size would fail for ever.
func TestSettlesAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := &settleRecorder{}
		settler := jobs.NewSettler(db, slog.New(slog.DiscardHandler))
		output := json.RawMessage(`"` + string(bytes.Repeat([]byte("x"), 1<<20)) + `"`)
		var wg sync.WaitGroup
		for id := range int64(100) {
			wg.Go(func() {
				_, err := settler.Settle(t.Context(), jobs.Settlement{
					TaskID: id, Lease: jobs.Lease{WorkerID: "w", AttemptedAt: time.UnixMicro(id)},
					Outcome: jobs.Outcome{Kind: jobs.OutcomeComplete, Output: output},
				})
				require.NoError(t, err)
			})
		}
		synctest.Wait() // all of them wait to be written
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- settler.Run(ctx) }()
		wg.Wait()
		cancel()
		require.NoError(t, <-done)
		require.LessOrEqual(t, db.largest, 8<<20)
		require.Less(t, db.calls, 30, "and still go together")
	})
}
