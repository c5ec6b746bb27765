package governor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
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

	if time.Now().Before(g.claimRetryAt) {
		g.alarm.set(g.claimRetryAt)
		return nil
	}
	woken := g.pilot.woken.Swap(false)
	if g.holds.any() || len(g.policy.Load().Queues) == 0 {
		return nil
	}
	if !woken && rand.Float64() >= g.currentIntake().polls {
		return nil
	}
	// Before the look at the slots: the last one may become free right after it.
	g.more.Store(true)
	n := g.slots.take(g.metered(min(riverMax, claimMax)))
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
	rows, full, err := g.claimRows(ctx, worker, n)
	if err != nil {
		// The statement may have been committed although its answer is lost.
		g.claimInDoubt = true
		g.claimFailed(ctx, err)
	} else {
		g.claimRetry, g.claimRetryAt = 0, time.Time{}
		g.backlog.Store(full)
		g.pace.note(time.Since(sent))
		g.metrics.observeClaim(len(rows), time.Since(sent))
	}
	g.tokens.take(time.Now(), len(rows)) // also for those that are dropped
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
	if full && err == nil {
		g.more.Store(true)
		if taken, limit := g.slots.counts(); taken < limit {
			g.pilot.wake() // slots became free while this claim was under way
		}
	}
	return g.begin(worker, rows, sent, time.Now())
}

// metered is how many of n tasks the tokens allow to be claimed now. When that is
// none, the producer is woken once it is some.
func (g *Governor) metered(n int) int {
	now := time.Now()
	allowed := min(n, g.tokens.available(now))
	if allowed < 1 {
		g.metrics.limited.WithLabelValues(limitedTokens).Inc()
		g.alarm.set(now.Add(g.tokens.wait(now, n)))
	}
	return allowed
}

// claimRows claims up to n tasks: one of a kind that the app lacked, if it is
// time to ask again; some that aged, if it is their turn; and the others. It reports
// whether more may be waiting. Runs under claimMu.
func (g *Governor) claimRows(ctx context.Context, worker string, n int) (rows []dbq.TaskClaimRow, full bool, err error) {
	now := time.Now()
	in := g.currentIntake()
	c := &claiming{governor: g, in: in, worker: worker, now: now, skip: g.leftOut(in, now)}
	c.plain = in.plain && len(c.skip) == 0 && g.config.Kinds == nil && !g.drags(in, now)
	most := queuesProbed
	if !c.plain {
		most = max(1, min(queuesLaned, lanesMax/(priorities*(1+len(in.limited)))))
	}
	var others bool
	if c.queues, others, err = g.pickQueues(ctx, in, most, now); err != nil || len(c.queues) == 0 {
		return nil, false, err
	}
	if kind := g.skips.probe(now); kind != "" {
		var more bool
		if rows, more, err = c.probe(ctx, kind); err != nil || len(rows) == n {
			return rows, true, err
		}
		if len(rows) == 0 && !more {
			g.skips.forget(kind)
		}
	}
	if aged := g.ageing.share(now, n-len(rows)); aged > 0 && in.policy.Ageing > 0 {
		found, _, err := c.take(ctx, aged, in.policy.Ageing)
		rows = append(rows, found...)
		if err != nil || len(rows) == n {
			return rows, true, err
		}
	}
	found, full, err := c.take(ctx, n-len(rows), 0)
	if len(rows) == 0 {
		rows = found
	} else {
		rows = append(rows, found...)
	}
	if err == nil {
		g.ageing.note(len(rows), full)
	}
	if err == nil && !full {
		g.candidates.drained(c.queues)
	}
	return rows, full || others, err
}

// currentIntake prepares the policy in force, once.
func (g *Governor) currentIntake() *intake {
	policy := g.policy.Load()
	if g.intake == nil || g.intake.policy != policy {
		g.intake = newIntake(policy, g.config.Labels[canaryLabel] == canaryValue)
	}
	return g.intake
}

// claiming is one claim under way.
type claiming struct {
	governor *Governor
	in       *intake
	worker   string
	now      time.Time
	skip     []string // kinds that are left out, sorted
	queues   []laneQueue
	// plain: it starts at the front of its queues. Nothing is limited or left out, and no
	// dead rows are in the way.
	plain bool
}

// drags reports whether dead rows are in the way of claims from the front of the queues. Of
// more queues than a claim looks at through lanes it isn't asked: which of them have tasks
// would be looked up from the front all the same.
func (g *Governor) drags(in *intake, now time.Time) bool {
	return len(in.queues) <= queuesLaned && g.drag.on(now)
}

// take claims up to n tasks; with ageing, only those that have waited for that
// long for each step of their priority.
func (c *claiming) take(ctx context.Context, n int, ageing time.Duration) (rows []dbq.TaskClaimRow, full bool, err error) {
	g := c.governor
	if !c.plain {
		return c.takeFromLanes(ctx, n, ageing)
	}
	g.laneCount.Store(0)
	names := make([]string, len(c.queues))
	for i, q := range c.queues {
		names[i] = q.name
	}
	sent := time.Now()
	rows, err = g.q.TaskClaim(ctx, dbq.TaskClaimParams{
		Queues: names, Max: int32(n), WorkerID: c.worker, Ageing: ageing.Seconds(),
	})
	now, distance := time.Now(), time.Duration(g.distance.Load())
	if err == nil && distance > 0 && g.drag.note(now, now.Sub(sent)-distance, len(rows)) {
		g.config.Logger.InfoContext(ctx, "claims are slow for what they find: they no longer start at the front of the queues. Mostly a transaction is open for long, which keeps dead rows (sched doctor names it)",
			slog.Duration("took", now.Sub(sent)), slog.Int("tasks", len(rows)))
	}
	return rows, len(rows) == n, err
}

// probe claims one task of a kind that is left out because the app lacked it.
// It reports whether more of it may be waiting.
func (c *claiming) probe(ctx context.Context, kind string) (rows []dbq.TaskClaimRow, more bool, err error) {
	if _, paused := c.governor.pausedKinds(c.in.policy, c.now)[kind]; paused {
		return nil, true, nil
	}
	plan := lanePlan{queues: c.queues, kinds: []string{kind}, alone: true}
	return c.ask(ctx, plan, 1, 0)
}

// takeFromLanes is take where something is limited or left out.
func (c *claiming) takeFromLanes(ctx context.Context, n int, ageing time.Duration) ([]dbq.TaskClaimRow, bool, error) {
	g := c.governor
	plan := lanePlan{skip: c.skip, aged: ageing > 0}
	for _, q := range c.queues {
		if !g.flows.isBlocked(flowOfQueue(q.name), c.now) {
			plan.queues = append(plan.queues, q)
		}
	}
	dont := g.pausedKinds(c.in.policy, c.now)
	skipped := g.skips.list()
	for _, kind := range c.in.limited {
		_, paused := dont[kind]
		if !paused && !slices.Contains(skipped, kind) && !g.flows.isBlocked(flowOfKind(kind), c.now) && g.wants(kind) {
			plan.kinds = append(plan.kinds, kind)
		}
	}
	rows, full, err := c.ask(ctx, plan, n, ageing)
	// On the way past what is left out: nothing else would start sooner for a pause.
	for started := c.now; err == nil && full && len(rows) == 0 && ageing == 0 && time.Since(started) < laneWalk; {
		c.now = time.Now()
		rows, full, err = c.ask(ctx, plan, n, ageing)
	}
	if next := g.flows.nextTry(c.now); !next.IsZero() {
		g.alarm.set(next)
	}
	return rows, full, err
}

// wants reports whether this sidecar takes tasks of the kind at all.
func (g *Governor) wants(kind string) bool {
	return g.config.Kinds == nil || slices.Contains(g.config.Kinds, kind)
}

// ask claims through lanes and remembers what they showed.
func (c *claiming) ask(ctx context.Context, plan lanePlan, n int, ageing time.Duration) (rows []dbq.TaskClaimRow, full bool, err error) {
	g := c.governor
	plan.workers = max(1, c.in.policy.Workers)
	asks := g.lanes.plan(c.now, plan)
	if len(asks) == 0 {
		return nil, false, nil
	}
	params := dbq.TaskClaimLanesParams{
		WorkerID: c.worker, Max: int32(n), Kinds: g.config.Kinds, SkipKinds: plan.skip, Ageing: ageing.Seconds(),
		WindowRows: laneWindow, BudgetMs: int32(laneBudget.Milliseconds()),
	}
	if params.SkipKinds == nil {
		params.SkipKinds = []string{}
	}
	for i := range asks {
		ask := &asks[i]
		params.Queues = append(params.Queues, ask.key.queue)
		params.Priorities = append(params.Priorities, ask.key.priority)
		params.LaneKinds = append(params.LaneKinds, ask.key.kind)
		params.FromUs, params.FromIds = append(params.FromUs, ask.from.us), append(params.FromIds, ask.from.id)
		params.ToUs, params.ToIds = append(params.ToUs, ask.to.us), append(params.ToIds, ask.to.id)
		params.Lows, params.Highs = append(params.Lows, ask.low), append(params.Highs, ask.high)
	}
	sent := time.Now()
	found, err := g.q.TaskClaimLanes(ctx, params)
	took := time.Since(sent) - time.Duration(g.distance.Load())
	if err != nil || len(found) == 0 {
		return nil, false, err
	}
	for i := range found[:len(found)-1] {
		rows = append(rows, taskOf(&found[i]))
	}
	var report laneReport
	if err := json.Unmarshal(found[len(found)-1].Report, &report); err != nil {
		return rows, false, fmt.Errorf("report of a claim: %w", err)
	}
	now := time.Now()
	g.flows.block(now, report.Flows)
	for _, flow := range report.Flows {
		g.metrics.limited.WithLabelValues(flow.Why).Inc()
	}
	if ageing > 0 {
		return rows, true, nil // it looked at a part of each lane only
	}
	full = g.lanes.learn(now, asks, &report, plan.workers, took)
	g.laneCount.Store(int64(len(g.lanes.byKey)))
	return rows, full, nil
}

func taskOf(row *dbq.TaskClaimLanesRow) dbq.TaskClaimRow {
	return dbq.TaskClaimRow{
		Tid: row.Tid, ID: row.ID, Kind: row.Kind, Queue: row.Queue, Priority: row.Priority, Attempt: row.Attempt, MaxAttempts: row.MaxAttempts,
		Args: row.Args, Metadata: row.Metadata, CreatedAt: row.CreatedAt, ScheduledAt: row.ScheduledAt, AttemptedAt: row.AttemptedAt,
	}
}

// ageing gives tasks of low priority that have waited for long their part of the
// claims while there is more work than slots. Guarded by claimMu.
type ageing struct {
	last    time.Time
	claimed int  // since then
	full    bool // the last claim left something behind
}

const (
	ageingEvery = time.Second
	// ageingPart is what part of the claims it is at most.
	ageingPart = 4
)

// share returns how many of n tasks to claim by age now.
func (a *ageing) share(now time.Time, n int) int {
	if !a.full || now.Sub(a.last) < ageingEvery {
		return 0
	}
	part := min(n, a.claimed/ageingPart)
	if part > 0 {
		a.last, a.claimed = now, 0
	}
	return part
}

func (a *ageing) note(claimed int, full bool) {
	a.claimed += claimed
	a.full = full
}

// owns reports whether what the worker claimed is still its own for certain: it
// is the current registration, and its last heartbeat is fresher than the fence.
func (g *Governor) owns(worker string) bool {
	return worker == g.workerID() && time.Since(*g.lastBeat.Load()) < g.config.FenceAfter
}

// begin registers the claimed tasks as running and wraps them for River, as one
// job: see group.
func (g *Governor) begin(worker string, rows []dbq.TaskClaimRow, sent, now time.Time) []*rivertype.JobRow {
	if len(rows) == 0 {
		return nil
	}
	slices.SortFunc(rows, func(a, b dbq.TaskClaimRow) int {
		if a.Priority != b.Priority {
			return int(a.Priority) - int(b.Priority)
		}
		if c := a.ScheduledAt.Compare(b.ScheduledAt); c != 0 {
			return c
		}
		return int(a.ID - b.ID)
	})
	g.countClaimed(rows, now)
	members := &group{members: make([]*execution, len(rows))}
	members.left.Add(len(rows))
	for i := range rows {
		x := g.newExecution(worker, &rows[i], sent, now)
		x.group = members
		members.members[i] = x
		g.trace(x)
		g.running.add(x) // from here on others read it
	}
	empty := []byte("{}")                               // what River decodes; the real ones travel in the executions
	first, attemptedAt := &rows[0], rows[0].AttemptedAt // a pointer into rows would keep them all
	return []*rivertype.JobRow{{
		ID: first.ID, Kind: riverKind, Queue: producerQueue, State: rivertype.JobStateRunning,
		Attempt: int(first.Attempt), MaxAttempts: int(first.MaxAttempts), AttemptedAt: &attemptedAt,
		CreatedAt: first.CreatedAt, ScheduledAt: first.ScheduledAt, Priority: int(first.Priority),
		EncodedArgs: empty, Metadata: empty,
	}}
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

// needsMetadata reports whether there may be anything in metadata that a dispatch
// needs. Parsing what there isn't is a good part of what a claimed task costs.
func needsMetadata(metadata []byte) bool {
	return bytes.Contains(metadata, []byte(`"sched:timeout_ms"`)) || bytes.Contains(metadata, []byte(`"sched:batch"`)) ||
		bytes.Contains(metadata, []byte(`"sched:headers"`)) || bytes.IndexByte(metadata, '\\') >= 0
}

func (g *Governor) newExecution(worker string, row *dbq.TaskClaimRow, sent, now time.Time) *execution {
	var meta taskMetadata
	if needsMetadata(row.Metadata) {
		// Foreign clients may have put anything there. What doesn't fit is left
		// at its default; the task is none the worse for it.
		_ = json.Unmarshal(row.Metadata, &meta)
	}
	timeout := g.config.DefaultTimeout
	if meta.TimeoutMS > 0 {
		timeout = time.Duration(min(meta.TimeoutMS, timeoutMax.Milliseconds())) * time.Millisecond
	}
	base, _, _ := strings.Cut(row.Queue, "|") // the hash of selector and protocol is nobody's business
	x := &execution{
		task: dispatch.Task{
			ID: row.ID, Kind: row.Kind, Queue: base,
			Attempt: int(row.Attempt), MaxAttempts: int(row.MaxAttempts), Priority: int(row.Priority),
			Args: row.Args, Headers: meta.Headers, Batch: meta.Batch,
			Lease:     jobs.Lease{WorkerID: worker, AttemptedAt: row.AttemptedAt},
			CreatedAt: row.CreatedAt, ScheduledAt: row.ScheduledAt,
		},
		attemptTimes: attemptTimes{asked: sent, started: now},
		ctx:          g.workCtx,
		queue:        row.Queue,
		place:        row.Tid,
		series:       g.metrics.series.of(row.Kind, base),
	}
	if _, ok := g.config.Dispatcher.(dispatch.Starter); !ok {
		x.ctx, x.cancel = context.WithCancelCause(g.workCtx)
		x.later = make(chan jobs.Outcome, 1)
	}
	if timeout > 0 {
		x.task.Deadline = now.Add(timeout)
	}
	return x
}

const errAnswerLost = "the answer to its claim was lost: no app has seen it"

// returnUnknownClaims hands back tasks that the database says we run but that no
// execution knows of: the claim whose answer was lost got them. Runs under
// claimMu, so nothing is being claimed meanwhile.
func (g *Governor) returnUnknownClaims(ctx context.Context) error {
	known := g.running.leases()
	worker := g.workerID()
	most := len(known) + claimMax // so that what isn't known is among them
	rows, err := g.q.TaskRunningOf(ctx, dbq.TaskRunningOfParams{WorkerID: worker, Max: int32(most)})
	if err != nil {
		return err
	}
	for _, row := range rows {
		lease := jobs.Lease{WorkerID: worker, AttemptedAt: row.AttemptedAt}
		if _, ok := known[leaseKey{row.ID, row.AttemptedAt.UnixMicro()}]; ok {
			continue
		}
		result, err := g.settler.Settle(ctx, jobs.Settlement{TaskID: row.ID, Lease: lease, Outcome: jobs.Outcome{Kind: jobs.OutcomeHandBack, Error: errAnswerLost}})
		if err != nil {
			return err
		}
		g.config.Logger.InfoContext(ctx, "task handed back: the answer to its claim was lost",
			slog.Int64("task_id", row.ID), slog.String("worker_id", worker), slog.Bool("written", result.Verdict == jobs.Settled))
	}
	g.claimInDoubt = len(rows) == most
	return nil
}

// claimFailed says so, once, and sees to it that the next claim comes before the
// next poll, but not sooner than that. Runs under claimMu.
func (g *Governor) claimFailed(ctx context.Context, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	if g.claimRetry == 0 {
		g.config.Logger.WarnContext(ctx, "claims fail; trying again", slog.Any("error", err),
			slog.Duration("poll_interval", g.config.PollInterval))
	}
	g.claimRetry = min(max(claimRetryMin, 2*g.claimRetry), max(claimRetryMin, g.config.PollInterval))
	g.claimRetryAt = time.Now().Add(g.claimRetry)
	g.alarm.set(g.claimRetryAt)
}
