package governor

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivershared/baseservice"
	"github.com/riverqueue/river/rivershared/riverpilot"
	"github.com/riverqueue/river/rivershared/startstop"
	"github.com/riverqueue/river/rivertype"
)

// producerQueue is the name under which River's one producer runs. No row
// carries it: the claim covers the real queues.
const producerQueue = "sched"

// beginRetry is how often an election that waits for Postgres looks for it.
const beginRetry = 500 * time.Millisecond

// producerRow answers River's questions about the producer's queue, which is
// never paused and never changes.
func producerRow() *rivertype.Queue {
	now := time.Now()
	return &rivertype.Queue{Name: producerQueue, Metadata: []byte("{}"), CreatedAt: now, UpdatedAt: now}
}

// driver is River's pgx driver with the governor's pilot. It denies that it can
// listen, which makes River's client rely on polls and on direct wake-ups: the
// governor listens itself, and wakes the producer for its own reasons as well.
type driver struct {
	*riverpgxv5.Driver
	pilot *pilot
}

var _ riverdriver.Driver[pgx.Tx] = (*driver)(nil)

func newDriver(pool *pgxpool.Pool, pilot *pilot) *driver {
	return &driver{Driver: riverpgxv5.New(pool), pilot: pilot}
}

func (d *driver) PluginInit(*baseservice.Archetype) {}
func (d *driver) PluginPilot() riverpilot.Pilot     { return d.pilot }
func (d *driver) SupportsListener() bool            { return false }
func (d *driver) GetExecutor() riverdriver.Executor {
	return executor{d.Driver.GetExecutor(), d.pilot.governor.mayElect}
}

// executor silences what the governor does itself.
type executor struct {
	riverdriver.Executor
	mayElect func() bool
}

// errLed is why an election isn't held.
var errLed = fmt.Errorf("%w: somebody leads", rivertype.ErrNotFound)

// Begin is how an election begins. River answers each election that fails with a
// pause twice as long, up to a minute, and so could leave the fleet without a
// leader for that long after Postgres is back. Here an election waits for Postgres
// as long as its context allows, and is then merely not won: the next comes after
// River's usual interval. While somebody is known to lead there is none: each of
// them costs four statements, in every sidecar every five seconds.
func (e executor) Begin(ctx context.Context) (riverdriver.ExecutorTx, error) {
	if !e.mayElect() {
		return nil, errLed
	}
	for {
		tx, err := e.Executor.Begin(ctx)
		if err == nil {
			return executorTx{tx}, nil
		}
		if !sleep(ctx, beginRetry) {
			return nil, fmt.Errorf("%w: %w", rivertype.ErrNotFound, err)
		}
	}
}

func (executor) JobGetCancelRequested(context.Context, *riverdriver.JobGetCancelRequestedParams) ([]int64, error) {
	return nil, nil // watched by the governor
}

func (executor) JobSchedule(context.Context, *riverdriver.JobScheduleParams) ([]*riverdriver.JobScheduleResult, error) {
	return nil, nil // promoted by the governor
}

func (executor) JobDeleteBefore(context.Context, *riverdriver.JobDeleteBeforeParams) (int, error) {
	return 0, nil // what ended goes to the archive
}

func (executor) QueueCreateOrSetUpdatedAt(context.Context, *riverdriver.QueueCreateOrSetUpdatedAtParams) (*rivertype.Queue, error) {
	return producerRow(), nil
}

func (executor) QueueGet(context.Context, *riverdriver.QueueGetParams) (*rivertype.Queue, error) {
	return producerRow(), nil
}

// executorTx is the same within a transaction, where River's scheduler works.
type executorTx struct{ riverdriver.ExecutorTx }

func (executorTx) JobSchedule(context.Context, *riverdriver.JobScheduleParams) ([]*riverdriver.JobScheduleResult, error) {
	return nil, nil
}

// pilot answers River's producer, completer and rescuer.
type pilot struct {
	riverpilot.StandardPilot
	governor *Governor
	wakeup   func(ctx context.Context, inserted []*rivertype.JobInsertResult)
	woken    atomic.Bool // the next claim is for a reason, not a poll
}

var (
	_ riverpilot.Pilot           = (*pilot)(nil)
	_ riverpilot.PilotJobRescuer = (*pilot)(nil)
)

func (p *pilot) PilotInit(_ *baseservice.Archetype, params *riverpilot.PilotInitParams) {
	p.wakeup = params.NotifyNonTxJobInsert
}

// PluginMaintenanceServices run on the leader only.
func (p *pilot) PluginMaintenanceServices() []startstop.Service {
	return []startstop.Service{&leaderService{governor: p.governor}}
}

// PluginServices run on every client.
func (p *pilot) PluginServices() []startstop.Service { return nil }

// JobGetAvailable claims through the governor. River logs every error that it
// gets at every poll; the governor has logged it once already.
func (p *pilot) JobGetAvailable(ctx context.Context, _ riverdriver.Executor, _ riverpilot.ProducerState, params *riverdriver.JobGetAvailableParams) (*riverdriver.JobGetAvailableResult, error) {
	return &riverdriver.JobGetAvailableResult{Jobs: p.governor.claim(ctx, params.MaxToLock)}, nil
}

// JobSetStateIfRunningMany answers River's completer: the outcomes are written.
func (p *pilot) JobSetStateIfRunningMany(_ context.Context, _ riverdriver.Executor, params *riverdriver.JobSetStateIfRunningManyParams) ([]*rivertype.JobRow, error) {
	now := time.Now()
	rows := make([]*rivertype.JobRow, len(params.ID))
	for i, id := range params.ID {
		rows[i] = &rivertype.JobRow{ID: id, State: params.State[i], FinalizedAt: &now}
	}
	return rows, nil
}

// JobGetStuck finds nothing: a task is lost when its worker is, not by its age.
func (p *pilot) JobGetStuck(context.Context, riverdriver.Executor, *riverdriver.JobGetStuckParams) ([]*rivertype.JobRow, error) {
	return nil, nil
}

// JobRescueMany has nothing to rescue (see JobGetStuck).
func (p *pilot) JobRescueMany(context.Context, riverdriver.Executor, *riverdriver.JobRescueManyParams) (*struct{}, error) {
	return &struct{}{}, nil
}

// wake makes River's producer fetch soon. It is cheap and never blocks.
func (p *pilot) wake() {
	p.woken.Store(true)
	p.wakeup(context.Background(), []*rivertype.JobInsertResult{{Job: &rivertype.JobRow{Queue: producerQueue}}})
}
