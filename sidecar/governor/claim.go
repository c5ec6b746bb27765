package governor

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/riverqueue/river/rivertype"

	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/sidecar/dispatch"
	"github.com/sched-sidecar/sched/sql/dbq"
)

const (
	claimTimeout = 10 * time.Second
	// claimMax bounds one claim. A claim that comes back full is followed by
	// another at once, so it limits memory and lock time, not throughput.
	claimMax = 500
	// claimRetryMin is how soon a claim that failed is tried again: at once on
	// another connection, but for a database that is away not before long.
	claimRetryMin = 50 * time.Millisecond
	// timeoutMax is the longest timeout that sched.enqueue takes. Others may have
	// asked for one that no Duration holds.
	timeoutMax = 7 * 24 * time.Hour
)

// taskMetadata is the part of river_job.metadata that a dispatch needs.
type taskMetadata struct {
	TimeoutMS int64             `json:"sched:timeout_ms"`
	Batch     string            `json:"sched:batch"`
	Headers   map[string]string `json:"sched:headers"`
}

// claim takes free slots, claims that many tasks and returns them as River jobs
// of the one kind that River knows. River calls it from one goroutine at a time.
func (g *Governor) claim(ctx context.Context, riverMax int) []*rivertype.JobRow {
	g.claimMu.Lock()
	defer g.claimMu.Unlock()

	policy := g.policy.Load()
	if g.holds.any() || len(policy.Queues) == 0 {
		return nil
	}
	// Before the look at the slots: the last one may become free right after it.
	g.more.Store(true)
	n := g.slots.take(min(riverMax, claimMax))
	if n == 0 {
		return nil
	}
	g.more.Store(false)

	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	if g.claimInDoubt {
		if err := g.returnUnknownClaims(ctx); err != nil {
			g.free(n)
			g.claimFailed(ctx, err)
			return nil
		}
	}
	worker, sent := g.workerID(), time.Now()
	rows, full, err := g.claimRows(ctx, worker, policy.Names(), n)
	if err != nil {
		// The statement may have been committed although its answer is lost.
		g.claimInDoubt = true
		g.claimFailed(ctx, err)
	} else {
		g.claimRetry = 0
		g.metrics.claims.Inc()
	}
	if len(rows) > 0 && !g.owns(worker) {
		// Others may have these tasks by now: this answer took its time, or this
		// process was suspended. What is still ours is handed back.
		g.config.Logger.WarnContext(ctx, "claim dropped: its answer came when this worker may have been evicted",
			slog.Int("tasks", len(rows)), slog.Duration("after", time.Since(sent)))
		g.claimInDoubt = true
		rows = nil
	}
	g.free(n - len(rows))
	g.metrics.claimed.Add(float64(len(rows)))
	if full {
		g.more.Store(true)
		if taken, limit := g.slots.counts(); taken < limit {
			g.pilot.wake() // slots became free while this claim was under way
		}
	}
	return g.begin(worker, rows, time.Now())
}

// claimRows claims up to n tasks: one of a kind that the app lacked, if it is
// time to ask again, and the others. It reports whether more may be waiting.
func (g *Governor) claimRows(ctx context.Context, worker string, queues []string, n int) (rows []dbq.TaskClaimRow, full bool, err error) {
	if kind := g.skips.probe(time.Now()); kind != "" {
		rows, err = g.q.TaskClaim(ctx, dbq.TaskClaimParams{
			Queues: queues, Kinds: []string{kind}, SkipKinds: []string{}, Max: 1, WorkerID: worker,
		})
		if err != nil || len(rows) == n {
			return rows, true, err
		}
	}
	n -= len(rows)
	others, err := g.q.TaskClaim(ctx, dbq.TaskClaimParams{
		Queues: queues, Kinds: g.config.Kinds, SkipKinds: g.skips.list(), Max: int32(n), WorkerID: worker,
	})
	return append(rows, others...), len(others) == n, err
}

// owns reports whether what the worker claimed is still its own for certain: it
// is the current registration, and its last heartbeat is fresher than the fence.
func (g *Governor) owns(worker string) bool {
	return worker == g.workerID() && time.Since(*g.lastBeat.Load()) < g.config.FenceAfter
}

// begin registers the claimed tasks as running and wraps them for River.
func (g *Governor) begin(worker string, rows []dbq.TaskClaimRow, now time.Time) []*rivertype.JobRow {
	slices.SortFunc(rows, func(a, b dbq.TaskClaimRow) int {
		if a.Priority != b.Priority {
			return int(a.Priority) - int(b.Priority)
		}
		if c := a.ScheduledAt.Compare(b.ScheduledAt); c != 0 {
			return c
		}
		return int(a.ID - b.ID)
	})
	empty := []byte("{}") // what River decodes; the real ones travel in the execution
	result := make([]*rivertype.JobRow, len(rows))
	g.countClaimed(rows, now)
	for i := range rows {
		row := &rows[i]
		x := g.newExecution(worker, row, now)
		g.running.add(x)
		attemptedAt := row.AttemptedAt
		result[i] = &rivertype.JobRow{
			ID: row.ID, Kind: riverKind, Queue: producerQueue, State: rivertype.JobStateRunning,
			Attempt: int(row.Attempt), MaxAttempts: int(row.MaxAttempts), AttemptedAt: &attemptedAt,
			CreatedAt: row.CreatedAt, ScheduledAt: row.ScheduledAt, Priority: int(row.Priority),
			EncodedArgs: empty, Metadata: empty,
		}
	}
	return result
}

// countClaimed tells the poller how busy the queues are.
func (g *Governor) countClaimed(rows []dbq.TaskClaimRow, now time.Time) {
	for i := 0; i < len(rows); {
		n := 1
		for i+n < len(rows) && rows[i+n].Queue == rows[i].Queue {
			n++
		}
		g.poller.count(now, rows[i].Queue, n)
		i += n
	}
}

func (g *Governor) newExecution(worker string, row *dbq.TaskClaimRow, now time.Time) *execution {
	var meta taskMetadata
	if len(row.Metadata) > len("{}") {
		// Foreign clients may have put anything there. What doesn't fit is left
		// at its default; the task is none the worse for it.
		_ = json.Unmarshal(row.Metadata, &meta)
	}
	timeout := g.config.DefaultTimeout
	if meta.TimeoutMS > 0 {
		timeout = time.Duration(min(meta.TimeoutMS, timeoutMax.Milliseconds())) * time.Millisecond
	}
	ctx, cancel := context.WithCancelCause(g.workCtx)
	base, _, _ := strings.Cut(row.Queue, "|") // the hash of selector and protocol is nobody's business
	x := &execution{
		task: dispatch.Task{
			ID: row.ID, Kind: row.Kind, Queue: base,
			Attempt: int(row.Attempt), MaxAttempts: int(row.MaxAttempts), Priority: int(row.Priority),
			Args: row.Args, Headers: meta.Headers, Batch: meta.Batch,
			Lease:     jobs.Lease{WorkerID: worker, AttemptedAt: row.AttemptedAt},
			CreatedAt: row.CreatedAt, ScheduledAt: row.ScheduledAt,
		},
		started: now,
		ctx:     ctx,
		cancel:  cancel,
		later:   make(chan jobs.Outcome, 1),
	}
	if timeout > 0 {
		x.task.Deadline = now.Add(timeout)
	}
	return x
}

// returnUnknownClaims hands back tasks that the database says we run but that no
// execution knows of: the claim whose answer was lost got them. Runs under
// claimMu, so nothing is being claimed meanwhile.
func (g *Governor) returnUnknownClaims(ctx context.Context) error {
	known := g.running.leases()
	worker := g.workerID()
	rows, err := g.q.TaskRunningOf(ctx, dbq.TaskRunningOfParams{WorkerID: worker, Max: claimMax})
	if err != nil {
		return err
	}
	for _, row := range rows {
		lease := jobs.Lease{WorkerID: worker, AttemptedAt: row.AttemptedAt}
		if _, ok := known[leaseKey{row.ID, row.AttemptedAt.UnixMicro()}]; ok {
			continue
		}
		result, err := g.settler.Settle(ctx, jobs.Settlement{TaskID: row.ID, Lease: lease, Outcome: jobs.Outcome{Kind: jobs.OutcomeHandBack}})
		if err != nil {
			return err
		}
		g.config.Logger.InfoContext(ctx, "task handed back: the answer to its claim was lost",
			slog.Int64("task_id", row.ID), slog.Bool("written", result.Verdict == jobs.Settled))
	}
	g.claimInDoubt = false
	return nil
}

// claimFailed says so, once, and sees to it that the next claim comes before the
// next poll. Runs under claimMu.
func (g *Governor) claimFailed(ctx context.Context, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	if g.claimRetry == 0 {
		g.config.Logger.WarnContext(ctx, "claims fail; trying again", slog.Any("error", err),
			slog.Duration("poll_interval", g.config.PollInterval))
	}
	g.claimRetry = min(max(claimRetryMin, 2*g.claimRetry), max(claimRetryMin, g.config.PollInterval))
	time.AfterFunc(g.claimRetry, g.pilot.wake)
}
