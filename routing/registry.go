package routing

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sched-sidecar/sched/sql/dbq"
)

// ErrEvicted is returned by [Registry.Beat] when the registration has ended:
// the fleet gave its tasks to others, and it must register anew.
var ErrEvicted = errors.New("worker was evicted")

// maxLost is how many workers may die with a task before it counts as the cause.
const maxLost = 3

// rescueBatch bounds one rescue statement; a rescue repeats it until done.
const rescueBatch = 1000

// forgetBatch bounds how many logged attempts are forgotten at once. It must keep
// up with all that fail, are snoozed or handed back: 50,000 a minute are 800 a second.
const forgetBatch = 50_000

// Worker describes a registration.
type Worker struct {
	ID        string
	ClientID  string // the sidecar process, and its River client
	Hostname  string
	PID       int
	Version   string
	AppURL    string
	Labels    map[string]string
	Queues    []string // base names it is narrowed to; nil: all
	Kinds     []string // kinds it is narrowed to; nil: all
	Protocols []string
	Slots     int
	Ceiling   int
}

// Load is the part of a registration that changes.
type Load struct {
	Running int
	Slots   int
	Ceiling int
	// CPU and Mem are what the app uses of what it may use, 0 to 1.
	CPU, Mem float64
	// LoadPercent is the app's load, 0 to 100; 0 when nothing is known of it.
	LoadPercent float64
	// Polling: this worker looks for tasks by itself, several times a second. For
	// [Registry.PublishLoad].
	Polling bool
	// SkippedKinds are not claimed for now because the app lacks them; not nil. For
	// [Registry.Beat].
	SkippedKinds []string
	// Holds are the reasons for claiming nothing now; not nil.
	Holds     []string
	RoundTrip time.Duration // of the previous heartbeat; for Beat
}

// Rescued is a task that was taken away from a dead worker.
type Rescued struct {
	TaskID   int64
	Kind     string
	WorkerID string
	State    string // available, cancelled, or discarded
}

// DB is what the registry needs of a connection pool.
type DB interface {
	dbq.DBTX
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Registry reads and writes sched.worker.
type Registry struct {
	db DB
	q  *dbq.Queries
}

// NewRegistry returns a registry over db.
func NewRegistry(db DB) *Registry { return &Registry{db: db, q: dbq.New(db)} }

// NewWorkerID returns a fresh random id for a registration.
func NewWorkerID() string {
	const alphabet = "0123456789abcdefghijklmnopqrstuvwxyz"
	var raw [12]byte
	_, _ = rand.Read(raw[:]) // never fails (crypto/rand)
	for i, b := range raw {
		raw[i] = alphabet[int(b)%len(alphabet)]
	}
	return "w-" + string(raw[:])
}

// Register starts a registration in state pending.
func (r *Registry) Register(ctx context.Context, w Worker) error {
	labels, err := encodeLabels(w.Labels)
	if err != nil {
		return err
	}
	err = r.q.WorkerRegister(ctx, dbq.WorkerRegisterParams{
		ID: w.ID, ClientID: w.ClientID, Hostname: w.Hostname, Pid: int32(w.PID), Version: w.Version, AppUrl: w.AppURL,
		Labels: labels, Queues: w.Queues, Kinds: w.Kinds, Protocols: w.Protocols,
		Slots: int32(w.Slots), Ceiling: int32(w.Ceiling),
	})
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == codeNoPrivilege {
		return fmt.Errorf("register worker %s: %w: this login role may not be a sidecar's: `GRANT sched_sidecar TO` it", w.ID, err)
	}
	if err != nil {
		return fmt.Errorf("register worker %s: %w", w.ID, err)
	}
	return nil
}

const codeNoPrivilege = "42501"

// moveTries bounds how often a move begins anew because somebody else moved the
// registration meanwhile. There are no more moves than that.
const moveTries = 4

// Move takes a registration on to state to, by compare and swap. It reports false
// when the registration had already gone that far, or has ended. It returns
// [ErrIllegalMove] for a state that no move leads to.
func (r *Registry) Move(ctx context.Context, workerID string, to State, reason string) (bool, error) {
	if to != StateActive && to != StateDraining && to != StateDone {
		return false, fmt.Errorf("worker %s: %w: none leads to %q", workerID, ErrIllegalMove, to)
	}
	for range moveTries {
		row, err := r.q.WorkerState(ctx, workerID)
		if errors.Is(err, pgx.ErrNoRows) {
			return false, nil // ended, and forgotten since
		}
		if err != nil {
			return false, fmt.Errorf("move worker %s to %s: %w", workerID, to, err)
		}
		from := State(row.State)
		if legal := checkMove(from, to) == nil; !legal {
			return false, nil
		}
		n, err := r.q.WorkerMove(ctx, dbq.WorkerMoveParams{
			ID: workerID, FromState: row.State, StateVersion: row.StateVersion, ToState: string(to), Reason: reason,
		})
		if err != nil {
			return false, fmt.Errorf("move worker %s to %s: %w", workerID, to, err)
		}
		if n == 1 {
			return true, nil
		}
	}
	return false, fmt.Errorf("move worker %s to %s: others keep moving it", workerID, to)
}

// Heard is what a worker learns by its heartbeat.
type Heard struct {
	State         State // of its registration; an operator may have moved it to draining
	PolicyVersion int64 // see [Policy.Version]
	Led           bool  // somebody leads
}

// News reports whether the policy is no longer what the worker would read now. What
// operators change is not in it: sidecars are told of that.
func (h Heard) News(policy *Policy) bool {
	return h.PolicyVersion != policy.Version || h.Led != policy.Led
}

// Beat writes one heartbeat with the load. It returns [ErrEvicted] when the
// registration has ended.
func (r *Registry) Beat(ctx context.Context, workerID string, load Load) (Heard, error) {
	row, err := r.q.WorkerBeat(ctx, dbq.WorkerBeatParams{
		ID: workerID, Running: int32(load.Running), Slots: int32(load.Slots), Ceiling: int32(load.Ceiling),
		Cpu: float32(load.CPU), Mem: float32(load.Mem), LoadPercent: float32(load.LoadPercent),
		SkippedKinds: load.SkippedKinds, Holds: load.Holds, RttMs: float32(load.RoundTrip.Seconds() * 1000),
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Heard{}, ErrEvicted
	case err != nil:
		return Heard{}, fmt.Errorf("heartbeat of worker %s: %w", workerID, err)
	}
	return Heard{State: State(row.State), PolicyVersion: row.PolicyVersion, Led: row.Led}, nil
}

// PublishLoad writes the load between two heartbeats. Nothing is written for a
// registration that has ended: the next heartbeat finds that out.
func (r *Registry) PublishLoad(ctx context.Context, workerID string, load Load) error {
	_, err := r.q.WorkerLoad(ctx, dbq.WorkerLoadParams{
		ID: workerID, Running: int32(load.Running), Slots: int32(load.Slots), Ceiling: int32(load.Ceiling),
		Cpu: float32(load.CPU), Mem: float32(load.Mem), LoadPercent: float32(load.LoadPercent),
		Holds: load.Holds, Polling: load.Polling,
	})
	if err != nil {
		return fmt.Errorf("load of worker %s: %w", workerID, err)
	}
	return nil
}

// Evict ends a dead worker's registration and makes its tasks available, in one
// transaction. It does nothing, and reports false, when the worker beat
// meanwhile or its row is held. Tasks whose rows an app holds locked stay for [Registry.Sweep].
func (r *Registry) Evict(ctx context.Context, dead Beat, reason string) (evicted bool, rescued []Rescued, err error) {
	tx, err := r.db.Begin(ctx)
	if err != nil {
		return false, nil, fmt.Errorf("evict worker %s: %w", dead.WorkerID, err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // no-op after the commit
	q := r.q.WithTx(tx)
	n, err := q.WorkerEvict(ctx, dbq.WorkerEvictParams{ID: dead.WorkerID, HeartbeatSeq: dead.Seq, Reason: reason})
	if err != nil {
		return false, nil, fmt.Errorf("evict worker %s: %w", dead.WorkerID, err)
	}
	if n == 0 {
		return false, nil, nil
	}
	rescued, err = rescue(ctx, q, []string{dead.WorkerID})
	if err != nil {
		return false, nil, err
	}
	if err := tx.Commit(ctx); err != nil {
		return false, nil, fmt.Errorf("evict worker %s: %w", dead.WorkerID, err)
	}
	return true, rescued, nil
}

// Sweep rescues tasks that ended registrations still own.
func (r *Registry) Sweep(ctx context.Context) ([]Rescued, error) {
	gone, err := r.q.WorkerGone(ctx)
	if err != nil {
		return nil, fmt.Errorf("find tasks of gone workers: %w", err)
	}
	if len(gone) == 0 {
		return nil, nil
	}
	return rescue(ctx, r.q, gone)
}

// Forget deletes registrations that ended more than keep ago, and logged
// attempts of tasks that no longer exist.
func (r *Registry) Forget(ctx context.Context, keep time.Duration) error {
	if _, err := r.q.WorkerForget(ctx, keep.Seconds()); err != nil {
		return fmt.Errorf("forget ended workers: %w", err)
	}
	if _, err := r.q.AttemptLogSweep(ctx, dbq.AttemptLogSweepParams{KeepSeconds: keep.Seconds(), Max: forgetBatch}); err != nil {
		return fmt.Errorf("forget logged attempts: %w", err)
	}
	return nil
}

// Policy reads what a worker has to obey: of the queues whose selector its labels
// satisfy, whose protocol is among protocols and whose base name is in bases (nil:
// any), those it is assigned to, and those that nobody is.
func (r *Registry) Policy(ctx context.Context, workerID string, labels map[string]string, protocols, bases []string) (Policy, error) {
	encoded, err := encodeLabels(labels)
	if err != nil {
		return Policy{}, err
	}
	asked := time.Now()
	row, err := r.q.PolicyRead(ctx, dbq.PolicyReadParams{WorkerID: workerID, Labels: encoded, Protocols: protocols, Bases: bases})
	if err != nil {
		return Policy{}, fmt.Errorf("read the policy of worker %s: %w", workerID, err)
	}
	policy := Policy{
		Queues: make([]QueuePolicy, len(row.Names)), Kinds: make([]KindPolicy, len(row.Kinds)),
		Ageing: time.Duration(row.AgeingSeconds * float64(time.Second)), BusyPolls: row.BusyPolls,
		Workers: int(row.FleetWorkers), Led: row.Led, Version: row.PolicyVersion, ReadAt: asked,
	}
	for i, name := range row.Names {
		policy.Queues[i] = QueuePolicy{
			Name: name, Base: row.Bases[i], Strategy: Strategy(row.Strategies[i]),
			Weight: int(row.Weights[i]), WeightTotal: row.WeightTotals[i], FreeSlots: int(row.FreeSlots[i]), Workers: int(row.Workers[i]),
			Polled: row.Polled[i], Paused: row.Paused[i], Limited: row.Limited[i],
			CanaryPercent: float64(row.CanaryPercents[i]), CanaryWorkers: int(row.CanaryWorkers[i]),
		}
	}
	// Here, since the database sorts as its language does.
	slices.SortFunc(policy.Queues, func(a, b QueuePolicy) int { return strings.Compare(a.Name, b.Name) })
	for i, kind := range row.Kinds {
		policy.Kinds[i] = KindPolicy{Kind: kind, Limited: row.KindsLimited[i]}
		if seconds := row.KindsPausedSeconds[i]; seconds > 0 {
			// From the answer on: rather a little late than before the app is ready.
			policy.Kinds[i].PausedUntil = time.Now().Add(time.Duration(seconds * float64(time.Second)))
		}
	}
	slices.SortFunc(policy.Kinds, func(a, b KindPolicy) int { return strings.Compare(a.Kind, b.Kind) })
	return policy, nil
}

func encodeLabels(labels map[string]string) ([]byte, error) {
	if labels == nil {
		return []byte("{}"), nil
	}
	encoded, err := json.Marshal(labels)
	if err != nil {
		return nil, fmt.Errorf("labels: %w", err)
	}
	return encoded, nil
}

// Shares reads how many share the work of the queues now.
func (r *Registry) Shares(ctx context.Context, queues []string) (map[string]PollShare, error) {
	rows, err := r.q.PolicyShares(ctx, queues)
	if err != nil {
		return nil, fmt.Errorf("read who shares queues: %w", err)
	}
	shares := make(map[string]PollShare, len(rows))
	for _, row := range rows {
		shares[row.Name] = PollShare{FreeSlots: int(row.FreeSlots), Workers: int(row.Workers), Polled: row.Polled}
	}
	return shares, nil
}

// DiscoverQueues makes queue rows for tasks that were inserted into a queue
// without one, by a River client or while another transaction made the row.
func (r *Registry) DiscoverQueues(ctx context.Context) error {
	if _, err := r.q.QueueDiscover(ctx); err != nil {
		return fmt.Errorf("discover queues: %w", err)
	}
	return nil
}

func rescue(ctx context.Context, q *dbq.Queries, workerIDs []string) ([]Rescued, error) {
	var all []Rescued
	for {
		rows, err := q.TaskRescue(ctx, dbq.TaskRescueParams{WorkerIds: workerIDs, MaxLost: maxLost, Max: rescueBatch})
		if err != nil {
			return nil, fmt.Errorf("rescue tasks of %v: %w", workerIDs, err)
		}
		for _, row := range rows {
			all = append(all, Rescued{TaskID: row.ID, Kind: row.Kind, WorkerID: row.WorkerID, State: row.State})
		}
		if len(rows) < rescueBatch {
			return all, nil
		}
	}
}
