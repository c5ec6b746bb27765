package governor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/riverqueue/river"

	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/sidecar/dispatch"
	"github.com/sched-sidecar/sched/sidecar/spans"
	"github.com/sched-sidecar/sched/sql/dbq"
)

// pauseTimeout bounds telling the fleet of a pause, which must not keep an outcome
// from being written.
const pauseTimeout = 5 * time.Second

// riverKind is the only kind that River sees.
const riverKind = "sched.task"

// Revoker is implemented by dispatchers that can tell the app about an accepted
// task that it should give up, since no call is open any more that could end.
type Revoker interface {
	Revoke(ctx context.Context, task *dispatch.Task, cause error) error
}

// execution is one attempt in this sidecar, from claim to settle.
type execution struct {
	task dispatch.Task
	attemptTimes
	ctx      context.Context         //nolint:containedctx // lives as long as the attempt
	cancel   context.CancelCauseFunc // ends ctx; nil for an attempt that was started rather than waited for
	ending   ending                  // of such an attempt
	deadline *time.Timer             // ends it; nil: it has none
	accepted atomic.Bool
	spans    *spans.Attempt    // nil: not traced
	later    chan jobs.Outcome // capacity 1: the outcome of an accepted task; nil where none are accepted
	queue    string            // its whole name
	place    pgtype.TID        // where the claim left the row
	series   taskSeries
	group    *group
}

// end ends the attempt from outside, unless it is over.
func (x *execution) end(cause error) {
	if x.cancel != nil {
		x.cancel(cause)
		return
	}
	x.ending.end(cause)
}

// ends reports whether it was told to end.
func (x *execution) ends() bool { return x.ctx.Err() != nil || x.ending.cause() != nil }

// ending ends an attempt that was started, for the first cause that there is, even if
// that comes before it is known how. A context for each would cost more than the task.
type ending struct {
	mu    sync.Mutex
	first error
	how   func(cause error)
}

func (e *ending) end(cause error) {
	e.mu.Lock()
	if e.first != nil {
		e.mu.Unlock()
		return
	}
	e.first = cause
	how := e.how
	e.mu.Unlock()
	if how != nil {
		how(cause)
	}
}

// by says how the attempt is ended.
func (e *ending) by(how func(cause error)) {
	e.mu.Lock()
	e.how = how
	cause := e.first
	e.mu.Unlock()
	if cause != nil {
		how(cause)
	}
}

func (e *ending) cause() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.first
}

// group are the attempts of one claim. River runs them as one job: what it does
// for each job costs more than handing a task to the app. Nothing else about them
// is common: each is dispatched, ended, settled and gives back its slot by itself.
type group struct {
	members []*execution
	left    sync.WaitGroup
}

type leaseKey struct {
	taskID int64
	micros int64
}

func (x *execution) key() leaseKey {
	return leaseKey{x.task.ID, x.task.Lease.AttemptedAt.UnixMicro()}
}

// executions are the attempts that hold a slot.
type executions struct {
	mu      sync.Mutex
	byLease map[leaseKey]*execution
}

func (e *executions) add(x *execution) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.byLease == nil {
		e.byLease = map[leaseKey]*execution{}
	}
	e.byLease[x.key()] = x
}

func (e *executions) remove(x *execution) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.byLease, x.key())
}

func (e *executions) get(key leaseKey) *execution {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.byLease[key]
}

// all returns the attempts for which match holds.
func (e *executions) all(match func(*execution) bool) []*execution {
	e.mu.Lock()
	defer e.mu.Unlock()
	var found []*execution
	for _, x := range e.byLease {
		if match(x) {
			found = append(found, x)
		}
	}
	return found
}

func (e *executions) leases() map[leaseKey]struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	keys := make(map[leaseKey]struct{}, len(e.byLease))
	for key := range e.byLease {
		keys[key] = struct{}{}
	}
	return keys
}

func (e *executions) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.byLease)
}

// riverArgs stands for any task's args; they travel in the execution.
type riverArgs struct{}

func (riverArgs) Kind() string { return riverKind }

// riverWorker is the one worker that River knows.
type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	governor *Governor
}

// Timeout is River's to leave alone: deadlines are the governor's.
func (*riverWorker) Timeout(*river.Job[riverArgs]) time.Duration { return -1 }

// Work runs the attempts of one claim to their settled ends. It always succeeds
// for River, whose completer has nothing to write.
func (w *riverWorker) Work(_ context.Context, job *river.Job[riverArgs]) error {
	first := w.governor.running.get(leaseKey{job.ID, job.AttemptedAt.UnixMicro()})
	if first == nil {
		return fmt.Errorf("task %d has no execution", job.ID) // cannot happen: begin adds it first
	}
	g := first.group
	members := g.members
	g.members = nil // those that have ended must not be kept by the one that runs longest
	for _, x := range members {
		if starter, ok := w.governor.config.Dispatcher.(dispatch.Starter); ok {
			w.governor.start(x, starter)
		} else {
			go w.governor.run(x)
		}
	}
	g.left.Wait()
	return nil
}

// run dispatches the task, writes the outcome, and only then frees the slot.
func (g *Governor) run(x *execution) {
	defer g.release(x)
	g.tally.begin(x.started)
	g.metrics.observeStart(x)
	outcome := g.dispatch(x)
	g.note(x, outcome)
	outcome = g.withDelay(x, outcome)
	result, err := g.settler.Settle(g.settleCtx, settlementOf(x, outcome))
	g.settled(x, outcome, result, err)
}

// trace begins the attempt's spans, if it is traced. The log finds them by its context.
func (g *Governor) trace(x *execution) {
	x.spans = g.config.Spans.Begin(&x.task, x.asked, x.started)
	x.ctx = x.spans.Context(x.ctx)
}

const errSuspended = "the sidecar was suspended after the claim: no app has seen it"

// start is run for a dispatcher that needs no goroutine for each task.
func (g *Governor) start(x *execution, starter dispatch.Starter) {
	g.tally.begin(x.started)
	g.metrics.observeStart(x)
	if !g.owns(x.task.Lease.WorkerID) {
		g.ended(x, jobs.Outcome{Kind: jobs.OutcomeHandBack, Error: errSuspended})
		return
	}
	x.limit()
	x.ending.by(g.begun(x, starter))
	if g.workCtx.Err() != nil {
		x.end(context.Cause(g.workCtx)) // it came when all were told
	}
}

// limit has the attempt end at its deadline.
func (x *execution) limit() {
	if x.task.Deadline.IsZero() {
		return
	}
	left := time.Until(x.task.Deadline)
	if left <= 0 {
		x.end(dispatch.ErrDeadline)
		return
	}
	x.deadline = time.AfterFunc(left, func() { x.end(dispatch.ErrDeadline) })
}

// begun starts the attempt at the app, whatever happens.
func (g *Governor) begun(x *execution, starter dispatch.Starter) (end func(cause error)) {
	var over atomic.Bool
	done := func(outcome jobs.Outcome) {
		if over.CompareAndSwap(false, true) {
			g.ended(x, outcome)
		}
	}
	defer func() {
		if recovered := recover(); recovered != nil {
			end = func(error) {}
			done(g.panicked(x, recovered))
		}
	}()
	return starter.Start(&x.task, done)
}

// panicked is the outcome of an attempt whose dispatcher panicked.
func (g *Governor) panicked(x *execution, recovered any) jobs.Outcome {
	g.config.Logger.ErrorContext(x.ctx, "dispatcher panicked", x.task.LogAttrs(),
		slog.Any("panic", recovered), slog.String("stack", string(debug.Stack())))
	return jobs.Outcome{Kind: jobs.OutcomeRetry, Error: fmt.Sprintf("the sidecar's dispatcher panicked: %v", recovered)}
}

// ended takes the outcome of an attempt that was started, without waiting.
func (g *Governor) ended(x *execution, outcome jobs.Outcome) {
	g.note(x, outcome)
	outcome = g.withDelay(x, outcome)
	g.settler.Begin(g.settleCtx, settlementOf(x, outcome), func(result jobs.SettleResult, err error) {
		defer g.release(x)
		g.settled(x, outcome, result, err)
	})
}

// release ends an attempt here and gives back its slot.
func (g *Governor) release(x *execution) {
	if x.deadline != nil {
		x.deadline.Stop()
	}
	if x.cancel != nil {
		x.cancel(nil)
	}
	g.running.remove(x)
	g.tally.end(time.Now(), &x.attemptTimes)
	g.free(1)
	if g.flows.unblock(x.queue) || g.more.Load() {
		g.pilot.wake()
	}
	x.group.left.Done()
}

// note learns from an outcome what it says of the app.
func (g *Governor) note(x *execution, outcome jobs.Outcome) {
	x.ended = time.Now()
	x.spans.Outcome(&outcome)
	g.metrics.observeDispatch(x, outcome.Kind, x.ended)
	x.tells = g.tally.outcome(x.ended, x.task.Deadline, &outcome)
	switch {
	case outcome.UnknownKind:
		g.skipKind(x)
	case outcome.AppDown:
		if g.config.OnAppDown != nil {
			g.config.OnAppDown(outcome.Error)
		}
	case outcome.Kind != jobs.OutcomeHandBack:
		g.skips.accept(x.task.Kind)
	}
}

// dispatch hands the task to the app and returns the attempt's outcome, whatever
// happens.
func (g *Governor) dispatch(x *execution) (outcome jobs.Outcome) {
	defer func() {
		if recovered := recover(); recovered != nil {
			outcome = g.panicked(x, recovered)
		}
	}()
	if !g.owns(x.task.Lease.WorkerID) {
		return jobs.Outcome{Kind: jobs.OutcomeHandBack, Error: errSuspended}
	}
	x.limit()
	outcome = g.config.Dispatcher.Dispatch(x.ctx, &x.task)
	if outcome.Kind != jobs.OutcomeAccepted {
		return outcome
	}
	x.accepted.Store(true)
	x.spans.Accepted()
	select {
	case outcome = <-x.later:
		return outcome
	case <-x.ctx.Done():
		cause := context.Cause(x.ctx)
		if revoker, ok := g.config.Dispatcher.(Revoker); ok && !errors.Is(cause, errSettledByApp) {
			if err := revoker.Revoke(context.WithoutCancel(x.ctx), &x.task, cause); err != nil {
				g.config.Logger.WarnContext(x.ctx, "the app doesn't know that its accepted task is over",
					x.task.LogAttrs(), slog.Any("error", err))
			}
		}
		return interrupted(cause, x)
	}
}

// errSettledByApp ends the wait for an accepted task that the app completed in
// its own transaction.
var errSettledByApp = errors.New("settled by the app")

// interrupted is the outcome of an accepted task that was ended from outside.
func interrupted(cause error, x *execution) jobs.Outcome {
	switch {
	case errors.Is(cause, errSettledByApp):
		return jobs.Outcome{Kind: jobs.OutcomeComplete}
	case errors.Is(cause, dispatch.ErrDeadline):
		return jobs.Outcome{Kind: jobs.OutcomeRetry, Error: fmt.Sprintf("deadline exceeded: accepted, but not settled within %s", x.task.Deadline.Sub(x.started))}
	case errors.Is(cause, dispatch.ErrCancelled):
		return jobs.Outcome{Kind: jobs.OutcomeCancel, Error: "cancelled while it ran"}
	default:
		return jobs.Outcome{Kind: jobs.OutcomeHandBack}
	}
}

// withDelay is the outcome with the delay of its retry policy, where it has none.
func (g *Governor) withDelay(x *execution, outcome jobs.Outcome) jobs.Outcome {
	if outcome.Kind == jobs.OutcomeRetry && outcome.Delay == 0 {
		outcome.Delay = g.retryDelay(x.task.Kind, x.task.Attempt-1, rand.Float64())
	}
	return outcome
}

func settlementOf(x *execution, outcome jobs.Outcome) jobs.Settlement {
	return jobs.Settlement{TaskID: x.task.ID, Lease: x.task.Lease, Outcome: outcome, Place: x.place}
}

// settled notes what became of an outcome. It was written, however long the
// database was away, or the shutdown ended first.
func (g *Governor) settled(x *execution, outcome jobs.Outcome, result jobs.SettleResult, err error) {
	x.spans.Settled(result, err)
	if err == nil && result.Verdict == jobs.Settled && outcome.Error == "" {
		g.metrics.observeSettled(x, outcome.Kind, result.State)
	} else {
		g.settledOddly(x, outcome, result, err)
	}
	// An answer that came too late says nothing of the app as it is now.
	if err == nil && result.Verdict == jobs.Settled && outcome.PauseKind && outcome.Delay > 0 {
		g.pauseKind(x, outcome)
	}
	if result.State == "retryable" || result.State == "scheduled" {
		g.promoter.expect(time.Now().Add(outcome.Delay))
	}
}

// settledOddly is settled for what is worth a word in the log.
func (g *Governor) settledOddly(x *execution, outcome jobs.Outcome, result jobs.SettleResult, err error) {
	log := g.config.Logger.With(x.task.LogAttrs(), slog.String("outcome", outcome.Kind.String()))
	switch {
	case err != nil:
		log.ErrorContext(g.settleCtx, "outcome not written; the task runs again after this worker's eviction", slog.Any("error", err))
		return
	case result.Verdict == jobs.Refused:
		g.metrics.refused.Inc()
		log.WarnContext(g.settleCtx, "settle refused: the lease is lost, nothing was changed", slog.String("lease", x.task.Lease.String()))
		return
	case result.Verdict == jobs.Replayed:
		g.metrics.replayed.Inc()
		if result.State == "completed" { // by the app, whatever it answered after that
			outcome = jobs.Outcome{Kind: jobs.OutcomeComplete}
		}
	}
	g.metrics.observeSettled(x, outcome.Kind, result.State)
	log = log.With(slog.String("error", outcome.Error))
	switch result.State {
	case "retryable":
		log.InfoContext(g.settleCtx, "attempt failed; trying again", slog.Duration("in", outcome.Delay))
	case "discarded":
		log.WarnContext(g.settleCtx, "task discarded: its attempts are spent, or it is hopeless")
	case "cancelled":
		log.InfoContext(g.settleCtx, "task cancelled")
	}
}

func (g *Governor) skipKind(x *execution) {
	backoff, isNew := g.skips.refuse(x.task.Kind, time.Now())
	if !isNew {
		return
	}
	g.metrics.skipped.Inc()
	g.config.Logger.WarnContext(x.ctx, "the app has no handler for this kind; handing its tasks back and not claiming it for a while",
		slog.String("kind", x.task.Kind), slog.Duration("skip", backoff))
	time.AfterFunc(backoff, g.pilot.wake)
}

// pauseKind has the whole fleet leave the kind alone for as long as the app said:
// this sidecar at once, the others when they hear of it. It doesn't wait for that.
func (g *Governor) pauseKind(x *execution, outcome jobs.Outcome) {
	now := time.Now()
	if !g.flows.pause(x.task.Kind, now.Add(outcome.Delay), now) {
		return
	}
	g.metrics.pauses.Inc()
	log := g.config.Logger.With(slog.String("kind", x.task.Kind), slog.Duration("for", outcome.Delay))
	log.InfoContext(x.ctx, "the app asks for a pause: no task of this kind is claimed meanwhile", slog.String("answer", outcome.Error))
	kind, worker := x.task.Kind, x.task.Lease.WorkerID
	g.telling.Go(func() {
		ctx, cancel := context.WithTimeout(g.settleCtx, pauseTimeout)
		defer cancel()
		_, err := g.q.KindPause(ctx, dbq.KindPauseParams{Kind: kind, Seconds: outcome.Delay.Seconds(), Reason: outcome.Error, WorkerID: worker})
		if err != nil {
			log.WarnContext(ctx, "the fleet doesn't know that the app asks for a pause", slog.Any("error", err))
		}
	})
}
