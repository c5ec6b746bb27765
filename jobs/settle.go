package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/sched-sidecar/sched/sql/dbq"
)

const (
	settleBatchMax     = 1000
	settleBytesMax     = 8 << 20 // of outputs in one batch; a larger one goes alone
	settleTimeout      = 10 * time.Second
	settleBackoffMin   = 50 * time.Millisecond
	settleBackoffMax   = time.Second
	settleLockedRecess = 100 * time.Millisecond
)

// Verdict is what became of an outcome that was to be written.
type Verdict uint8

// The verdicts of [Settler.Settle].
const (
	// Settled: the outcome is written, durably.
	Settled Verdict = iota + 1
	// Replayed: this attempt was settled before, by an earlier try whose answer
	// was lost or by the app itself. Nothing changed.
	Replayed
	// Refused: the lease owns no running attempt any more. Nothing changed.
	Refused
)

// Settlement is one attempt's outcome on its way to the database.
type Settlement struct {
	TaskID  int64
	Lease   Lease
	Outcome Outcome
	// Place is where in the table the claim left the row: the outcome gets there without
	// an index. Invalid: that isn't known.
	Place pgtype.TID
}

// SettleResult says what became of a [Settlement]. State is the status that the
// attempt left its task in, now or, Replayed, before; empty when Refused.
type SettleResult struct {
	Verdict Verdict
	State   string
}

// Settler writes outcomes in groups: whatever arrives while one statement is
// under way goes into the next, so a lone outcome is written at once and a
// flood shares commits. A failing database keeps outcomes waiting, bounded by
// the callers, who hold a slot for each.
type Settler struct {
	db     dbq.Querier
	logger *slog.Logger
	// Observe, when set, is told of each statement's batch size and duration.
	Observe func(size int, took time.Duration)

	mu      sync.Mutex
	pending []*settleCall
	closed  bool          // Run has ended
	ready   chan struct{} // capacity 1: there is something pending
}

type settleCall struct {
	Settlement
	done func(SettleResult, error) // called once
	ctx  context.Context
}

// errSettlerEnded: nobody writes outcomes any more.
var errSettlerEnded = errors.New("the settler has ended")

// placed reports whether this is a completion that finds its row by itself.
func (c *settleCall) placed() bool { return c.Outcome.Kind == OutcomeComplete && c.Place.Valid }

// abandon tells the caller that its outcome was not written.
func (c *settleCall) abandon() {
	cause := context.Cause(c.ctx)
	if cause == nil {
		cause = errSettlerEnded
	}
	c.done(SettleResult{}, fmt.Errorf("task %d: outcome %s not written: %w", c.TaskID, c.Outcome.Kind, cause))
}

// NewSettler returns a settler that writes through db once [Settler.Run] runs.
func NewSettler(db dbq.Querier, logger *slog.Logger) *Settler {
	return &Settler{db: db, logger: logger, ready: make(chan struct{}, 1)}
}

// Settle writes one outcome and returns what became of it. It waits as long as
// the database is away or the task's row is locked by the app; it fails only
// with ctx's error.
func (s *Settler) Settle(ctx context.Context, settlement Settlement) (SettleResult, error) {
	type answer struct {
		result SettleResult
		err    error
	}
	answered := make(chan answer, 1)
	s.Begin(ctx, settlement, func(result SettleResult, err error) { answered <- answer{result, err} })
	select {
	case a := <-answered:
		return a.result, a.err
	case <-ctx.Done():
		return SettleResult{}, fmt.Errorf("task %d: outcome %s not written: %w", settlement.TaskID, settlement.Outcome.Kind, context.Cause(ctx))
	}
}

// Begin is Settle without the wait: done is called once, by the goroutine of
// [Settler.Run], and must not block. After the end of ctx it is called at the next
// turn of that goroutine, or at its end.
func (s *Settler) Begin(ctx context.Context, settlement Settlement, done func(SettleResult, error)) {
	s.push(&settleCall{Settlement: settlement, done: done, ctx: ctx})
}

func (s *Settler) push(calls ...*settleCall) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		for _, call := range calls {
			call.abandon()
		}
		return
	}
	s.pending = append(s.pending, calls...)
	s.mu.Unlock()
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// take removes up to one batch of calls that somebody still waits for.
func (s *Settler) take() (batch, abandoned []*settleCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	batch = make([]*settleCall, 0, min(len(s.pending), settleBatchMax))
	var i, size int
	for ; i < len(s.pending) && len(batch) < settleBatchMax; i++ {
		if s.pending[i].ctx.Err() != nil {
			abandoned = append(abandoned, s.pending[i])
			continue
		}
		size += len(s.pending[i].Outcome.Output)
		if size > settleBytesMax && len(batch) > 0 {
			break
		}
		batch = append(batch, s.pending[i])
	}
	s.pending = append(s.pending[:0:0], s.pending[i:]...)
	if len(s.pending) > 0 {
		select {
		case s.ready <- struct{}{}:
		default:
		}
	}
	return batch, abandoned
}

// Run writes outcomes until ctx ends, and then abandons those that wait.
func (s *Settler) Run(ctx context.Context) error {
	defer s.abandonAll()
	backoff := settleBackoffMin
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.ready:
		}
		batch, abandoned := s.take()
		for _, call := range abandoned {
			call.abandon()
		}
		if len(batch) == 0 {
			continue
		}
		left, err := s.write(ctx, batch)
		switch {
		case err == nil:
			backoff = settleBackoffMin
			s.retryLater(left)
		case isDataError(err) && len(left) > 1:
			s.writeOneByOne(ctx, left)
		case isDataError(err):
			s.replaceUnstorable(left[0], err)
		default:
			s.push(left...)
			if ctx.Err() == nil {
				s.logger.WarnContext(ctx, "outcomes wait: the database does not take them",
					slog.Int("outcomes", len(left)), slog.Duration("retry_in", backoff), slog.Any("error", err))
			}
			if !wait(ctx, backoff) {
				return nil
			}
			backoff = min(2*backoff, settleBackoffMax)
		}
	}
}

// write sends one batch. What is left over has rows that others hold locked or, with
// an error, is not answered.
func (s *Settler) write(ctx context.Context, batch []*settleCall) (left []*settleCall, err error) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	started := time.Now()
	if left, err = s.complete(ctx, batch); err == nil && len(left) > 0 {
		left, err = s.decide(ctx, left)
	}
	if s.Observe != nil && len(left) < len(batch) {
		s.Observe(len(batch)-len(left), time.Since(started))
	}
	return left, err
}

// settleKey is an attempt, as statements return it.
type settleKey struct {
	id     int64
	micros int64
}

func (c *settleCall) key() settleKey { return settleKey{c.TaskID, c.Lease.AttemptedAt.UnixMicro()} }

// complete writes the completions in a batch that are of one worker, and returns what
// it did not write: only after an eviction are there those of two.
func (s *Settler) complete(ctx context.Context, batch []*settleCall) (left []*settleCall, err error) {
	n := len(batch)
	params := dbq.TaskCompleteParams{
		Numbers: make([]int32, 0, n), Tids: make([]pgtype.TID, 0, n), Ids: make([]int64, 0, n),
		AttemptedAts: make([]time.Time, 0, n),
	}
	asked := make([]*settleCall, 0, n)
	for _, call := range batch {
		if params.WorkerID == "" && call.placed() {
			params.WorkerID = call.Lease.WorkerID
		}
		if !call.placed() || call.Lease.WorkerID != params.WorkerID {
			left = append(left, call)
			continue
		}
		params.Numbers = append(params.Numbers, int32(len(asked)))
		asked = append(asked, call)
		params.Tids = append(params.Tids, call.Place)
		params.Ids = append(params.Ids, call.TaskID)
		params.AttemptedAts = append(params.AttemptedAts, call.Lease.AttemptedAt)
		if output := call.output(); output != nil {
			params.Outputs = append(params.Outputs, make([][]byte, len(asked)-1-len(params.Outputs))...)
			params.Outputs = append(params.Outputs, output)
		}
	}
	if len(asked) == 0 {
		return batch, nil
	}
	written, err := s.db.TaskComplete(ctx, params)
	if err != nil {
		return batch, err
	}
	for _, number := range written {
		call := asked[number]
		asked[number] = nil
		call.done(SettleResult{Verdict: Settled, State: "completed"}, nil)
	}
	for _, call := range asked {
		if call != nil {
			left = append(left, call)
		}
	}
	return left, nil
}

// decide writes outcomes of any kind and says of each what became of it. It returns
// those whose rows are locked or, with an error, all of them.
func (s *Settler) decide(ctx context.Context, batch []*settleCall) (left []*settleCall, err error) {
	rows, err := s.db.TaskSettle(ctx, settleParams(batch))
	if err != nil {
		return batch, err
	}
	byLease := make(map[settleKey]*dbq.TaskSettleRow, len(rows))
	for i := range rows {
		byLease[settleKey{rows[i].ID, rows[i].AttemptedAt.UnixMicro()}] = &rows[i]
	}
	for _, call := range batch {
		if byLease[call.key()] == nil {
			return batch, fmt.Errorf("settle of task %d got no verdict", call.TaskID)
		}
	}
	for _, call := range batch {
		row := byLease[call.key()]
		switch row.Verdict {
		case "locked":
			left = append(left, call)
		case "settled":
			call.done(SettleResult{Verdict: Settled, State: row.State}, nil)
		case "replayed":
			call.done(SettleResult{Verdict: Replayed, State: row.State}, nil)
		default:
			call.done(SettleResult{Verdict: Refused}, nil)
		}
	}
	return left, nil
}

// abandonAll ends the wait of whoever still waits.
func (s *Settler) abandonAll() {
	s.mu.Lock()
	s.closed = true
	calls := s.pending
	s.pending = nil
	s.mu.Unlock()
	for _, call := range calls {
		call.abandon()
	}
}

func settleParams(batch []*settleCall) dbq.TaskSettleParams {
	n := len(batch)
	params := dbq.TaskSettleParams{
		Ids: make([]int64, n), WorkerIds: make([]string, n), AttemptedAts: make([]time.Time, n),
		Outcomes: make([]string, n), DelaysMs: make([]int64, n), Errors: make([]string, n), Outputs: make([][]byte, n),
	}
	for i, call := range batch {
		params.Ids[i] = call.TaskID
		params.WorkerIds[i] = call.Lease.WorkerID
		params.AttemptedAts[i] = call.Lease.AttemptedAt
		params.Outcomes[i] = call.Outcome.Kind.String()
		params.DelaysMs[i] = call.Outcome.Delay.Milliseconds()
		params.Errors[i] = call.Outcome.Error
		params.Outputs[i] = call.output()
	}
	return params
}

// output is what the app returned; nil: nothing.
func (c *settleCall) output() []byte {
	if len(c.Outcome.Output) == 0 {
		return nil
	}
	return c.Outcome.Output
}

// writeOneByOne keeps one outcome that Postgres can't store from holding up the
// rest of its batch.
func (s *Settler) writeOneByOne(ctx context.Context, batch []*settleCall) {
	for i, call := range batch {
		left, err := s.write(ctx, []*settleCall{call})
		switch {
		case err == nil:
			s.retryLater(left)
		case isDataError(err):
			s.replaceUnstorable(call, err)
		default:
			s.push(batch[i:]...) // the database is away: Run waits for it
			return
		}
	}
}

// replaceUnstorable turns an outcome that Postgres refuses as data (JSON with
// \u0000, say) into a failure that says so, and queues that.
func (s *Settler) replaceUnstorable(call *settleCall, err error) {
	call.Outcome = Outcome{
		Kind:  OutcomeDiscard,
		Error: fmt.Sprintf("the attempt's outcome (%s) can't be stored: %s", call.Outcome.Kind, pgMessage(err)),
	}
	s.push(call)
}

// retryLater asks again for rows that an app holds locked, after a short recess
// and without holding up the others.
func (s *Settler) retryLater(locked []*settleCall) {
	if len(locked) == 0 {
		return
	}
	time.AfterFunc(settleLockedRecess, func() { s.push(locked...) })
}

// isDataError reports whether Postgres refused the values themselves, as data
// (class 22), for a constraint (23, such as a unique key that another task has by
// now) or for a limit of its own (54), which trying again cannot mend.
func isDataError(err error) bool {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || len(pgErr.Code) != 5 {
		return false
	}
	class := pgErr.Code[:2]
	return class == "22" || class == "23" || class == "54"
}

func pgMessage(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Message
	}
	return err.Error()
}

func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
