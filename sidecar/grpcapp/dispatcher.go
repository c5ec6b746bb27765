package grpcapp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/sched-sidecar/sched/jobs"
	workerv1 "github.com/sched-sidecar/sched/proto/sched/worker/v1"
	"github.com/sched-sidecar/sched/sidecar/dispatch"
)

// attemptKey tells attempts apart: a task has one lease at a time, but an app may
// speak of an older one.
type attemptKey struct {
	taskID int64
	lease  string
}

// attempt is a task on its way through an app.
type attempt struct {
	key  attemptKey
	task *dispatch.Task
	done func(jobs.Outcome)

	session  *session // nil: waits for room, or is an orphan
	written  bool     // it may have reached the app
	instance string   // whose it is, once it is written
	orphaned time.Time

	percent float32 // as the app said last
	message string
}

// Dispatcher hands tasks to the apps that have a session. It is safe for
// concurrent use.
type Dispatcher struct {
	config Config

	mu       sync.Mutex
	sessions []*session
	attempts map[attemptKey]*attempt
	waiting  []*attempt // in the order they came; some may be done already
	capacity int
	drain    *workerv1.Drain // what the apps were told; nil: nothing yet
	closed   bool
	reaper   *time.Timer

	late     Late
	lateSlot chan struct{}
	// background are the calls that must not run under mu.
	background sync.WaitGroup
}

var _ dispatch.Dispatcher = (*Dispatcher)(nil)

// New returns a dispatcher that has no session yet; see [Dispatcher.Listen].
func New(config Config) *Dispatcher {
	return &Dispatcher{config: config.withDefaults(), attempts: map[attemptKey]*attempt{}, lateSlot: make(chan struct{}, lateMax)}
}

// SettleLate makes results of attempts that this process doesn't know go to late.
// To be called once, before Serve.
func (d *Dispatcher) SettleLate(late Late) { d.late = late }

// Dispatch hands the task to the least busy session and waits for its result.
func (d *Dispatcher) Dispatch(ctx context.Context, task *dispatch.Task) jobs.Outcome {
	result := make(chan jobs.Outcome, 1)
	end := d.Start(task, func(outcome jobs.Outcome) { result <- outcome })
	select {
	case outcome := <-result:
		return outcome
	case <-ctx.Done():
		end(context.Cause(ctx))
		return <-result
	}
}

// Start hands the task to the least busy session. It calls done exactly once, with
// the outcome, possibly before it returns; done must not block. The function that
// it returns ends the attempt for a cause of package dispatch, unless it is over.
func (d *Dispatcher) Start(task *dispatch.Task, done func(jobs.Outcome)) (end func(cause error)) {
	a := &attempt{key: attemptKey{task.ID, task.Lease.String()}, task: task, done: done}
	d.mu.Lock()
	d.attempts[a.key] = a
	outcome, over := d.place(a)
	if over {
		delete(d.attempts, a.key)
	}
	d.mu.Unlock()
	if over {
		done(outcome)
	}
	begun := time.Now()
	return func(cause error) { d.end(a, cause, time.Since(begun)) }
}

// end gives an attempt up from outside and tells the app.
func (d *Dispatcher) end(a *attempt, cause error, after time.Duration) {
	d.mu.Lock()
	if d.attempts[a.key] != a {
		d.mu.Unlock()
		return
	}
	delete(d.attempts, a.key)
	written := a.written
	if s := a.session; s != nil {
		s.drop(a)
		if written {
			s.cancel(a.key, reason(cause))
		}
		d.fill()
	} else if i := slices.Index(d.waiting, a); i >= 0 {
		d.waiting = slices.Delete(d.waiting, i, i+1)
	}
	d.mu.Unlock()
	if errors.Is(cause, dispatch.ErrDeadline) && !written {
		// The app never had it: no session with room for its kind. That is no attempt.
		a.done(jobs.Outcome{Kind: jobs.OutcomeHandBack, Error: "no app had room for it before its deadline"})
		return
	}
	a.done(dispatch.Interrupted(cause, after, "a result from the app"))
}

// place gives the attempt to a session, or to those that wait. It reports an
// outcome when there is nobody to wait for. Under d.mu.
func (d *Dispatcher) place(a *attempt) (outcome jobs.Outcome, over bool) {
	s, known := d.choose(a.task.Kind)
	switch {
	case s != nil:
		s.give(a)
		return jobs.Outcome{}, false
	case known:
		d.waiting = append(d.waiting, a)
		return jobs.Outcome{}, false
	case d.open() == 0:
		return jobs.Outcome{Kind: jobs.OutcomeHandBack, AppDown: true, Error: d.nobody()}, true
	default:
		return jobs.Outcome{
			Kind: jobs.OutcomeHandBack, UnknownKind: true,
			Error: fmt.Sprintf("no session of the app has a handler for kind %q", a.task.Kind),
		}, true
	}
}

// choose returns the session with the most room left, by its window, among those
// that have the kind; nil when none has room, and whether any has the kind. Under d.mu.
func (d *Dispatcher) choose(kind string) (best *session, known bool) {
	for _, s := range d.sessions {
		if !s.takes(kind) {
			continue
		}
		known = true
		if len(s.held) >= s.window {
			continue
		}
		if best == nil || len(s.held)*best.window < len(best.held)*s.window {
			best = s
		}
	}
	return best, known
}

// fill gives waiting attempts to sessions with room. Under d.mu.
func (d *Dispatcher) fill() {
	if len(d.waiting) == 0 || (d.open() > 0 && d.full()) {
		return
	}
	waiting := d.waiting
	d.waiting = nil
	for _, a := range waiting {
		if d.attempts[a.key] != a || a.session != nil {
			continue
		}
		if outcome, over := d.place(a); over {
			delete(d.attempts, a.key)
			d.background.Go(func() { a.done(outcome) })
		}
	}
}

// full reports whether no session has room. Under d.mu.
func (d *Dispatcher) full() bool {
	return !slices.ContainsFunc(d.sessions, func(s *session) bool { return !s.leaving && len(s.held) < s.window })
}

// open counts the sessions that take tasks. Under d.mu.
func (d *Dispatcher) open() int {
	n := 0
	for _, s := range d.sessions {
		if !s.leaving {
			n++
		}
	}
	return n
}

func (d *Dispatcher) nobody() string {
	return fmt.Sprintf("no app has an open session at %s", d.config.Listen)
}

// Probe reports whether an app is there: it has an open session.
func (d *Dispatcher) Probe(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open() == 0 {
		return fmt.Errorf("%s", d.nobody())
	}
	return nil
}

// join adds a session and takes up what its app still works on. It returns what
// is lost of that. A former stream of the same instance ends.
func (d *Dispatcher) join(s *session, inFlight []attemptKey) (lost []attemptKey, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || d.drain != nil && !d.awaits(s.instance) {
		return nil, errStopping
	}
	if s.drain = d.drain; s.drain != nil {
		s.tell()
	}
	for _, former := range d.sessions {
		if former.instance == s.instance {
			former.leave(errReplaced)
			d.detach(former)
			break
		}
	}
	listed := make(map[attemptKey]struct{}, len(inFlight))
	for _, key := range inFlight {
		listed[key] = struct{}{}
		a := d.attempts[key]
		if a == nil || a.session != nil || a.instance != s.instance {
			lost = append(lost, key)
			continue
		}
		a.session, a.orphaned = s, time.Time{}
		s.held[key] = a
	}
	for key, a := range d.attempts {
		if _, ok := listed[key]; !ok && a.session == nil && a.instance == s.instance && a.written {
			delete(d.attempts, key)
			d.background.Go(func() {
				a.done(jobs.Outcome{Kind: jobs.OutcomeRetry, Error: "the app connected again without this task"})
			})
		}
	}
	d.sessions = append(d.sessions, s)
	d.count()
	d.fill()
	return lost, nil
}

// awaits reports whether an app that lost its stream still works on something.
// Under d.mu.
func (d *Dispatcher) awaits(instance string) bool {
	for _, a := range d.attempts {
		if a.session == nil && a.written && a.instance == instance {
			return true
		}
	}
	return false
}

// part removes a session. What was written to it waits for its app; what was not
// goes to others.
func (d *Dispatcher) part(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.detach(s)
	d.count()
	d.fill()
}

// detach is part without what follows. Under d.mu.
func (d *Dispatcher) detach(s *session) {
	i := slices.Index(d.sessions, s)
	if i < 0 {
		return
	}
	d.sessions = slices.Delete(d.sessions, i, i+1)
	now := time.Now()
	orphans := false
	for key, a := range s.held {
		a.session = nil
		delete(s.held, key)
		if a.written {
			a.orphaned, orphans = now, true
			continue
		}
		d.waiting = append(d.waiting, a)
	}
	if orphans && d.reaper == nil {
		d.reaper = time.AfterFunc(d.config.Grace, d.reap)
	}
}

// reap fails the attempts whose app did not come back in time.
func (d *Dispatcher) reap() {
	d.mu.Lock()
	d.reaper = nil
	var over []*attempt
	next := time.Duration(-1)
	for key, a := range d.attempts {
		if a.orphaned.IsZero() {
			continue
		}
		left := d.config.Grace - time.Since(a.orphaned)
		if left <= 0 || d.closed {
			delete(d.attempts, key)
			over = append(over, a)
		} else if next < 0 || left < next {
			next = left
		}
	}
	if next >= 0 {
		d.reaper = time.AfterFunc(next, d.reap)
	}
	d.mu.Unlock()
	for _, a := range over {
		a.done(jobs.Outcome{Kind: jobs.OutcomeRetry, Error: "no answer from the app: its session ended and it did not come back in time"})
	}
}

// count reports the capacity when it changed. Under d.mu: reports come in order.
func (d *Dispatcher) count() {
	total := 0
	for _, s := range d.sessions {
		if !s.leaving {
			total += s.window
		}
	}
	if total != d.capacity {
		d.capacity = total
		d.config.OnCapacity(total)
	}
}

// results takes in what a session's app says of its attempts.
func (d *Dispatcher) results(ctx context.Context, s *session, results []*workerv1.Result) error {
	type ended struct {
		a       *attempt
		outcome jobs.Outcome
	}
	over := make([]ended, 0, len(results))
	type stranger struct {
		key     attemptKey
		outcome jobs.Outcome
	}
	var strange []stranger
	outcomes := make([]jobs.Outcome, len(results))
	for i, r := range results {
		var err error
		if outcomes[i], err = d.outcomeOf(r); err != nil {
			return err // before any of the frame counts
		}
	}
	d.mu.Lock()
	for i, r := range results {
		key := attemptKey{r.GetTaskId(), r.GetLease()}
		a := d.attempts[key]
		if a == nil || (a.session != s && a.instance != s.instance) || !a.written {
			strange = append(strange, stranger{key, outcomes[i]})
			continue
		}
		delete(d.attempts, key)
		if a.session != nil {
			a.session.drop(a)
		}
		over = append(over, ended{a, outcomes[i]})
	}
	if len(over) > 0 {
		d.fill()
	}
	d.mu.Unlock()
	for _, e := range over {
		e.a.done(e.outcome)
	}
	for _, e := range strange {
		if err := d.settleLate(ctx, e.key, e.outcome); err != nil {
			return err
		}
	}
	return nil
}

// settleLate writes a result for an attempt that isn't known here: its lease may
// hold all the same, and says so to Postgres.
func (d *Dispatcher) settleLate(ctx context.Context, key attemptKey, outcome jobs.Outcome) error {
	lease, err := jobs.ParseLease(key.lease)
	if err != nil {
		return protocolError("result of task %d: %v", key.taskID, err)
	}
	if d.late == nil {
		return nil
	}
	select {
	case d.lateSlot <- struct{}{}:
	default:
		return nil // too many at once: their leases run out, and they are tried again
	}
	d.background.Go(func() {
		defer func() { <-d.lateSlot }()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lateTimeout)
		defer cancel()
		if err := d.late.SettleAccepted(ctx, key.taskID, lease, outcome); err != nil {
			d.config.Logger.WarnContext(ctx, "a result came too late: nothing was changed",
				slog.Int64("task_id", key.taskID), slog.String("worker_id", lease.WorkerID), slog.Any("error", err))
		}
	})
	return nil
}
