package bench

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"time"
)

// crew is the processes that drain a backlog.
type crew struct {
	counter *child // where the handlers run; nil: each in a process of its own
	client  *child // where tasks are claimed and settled
}

func (c *crew) stop() error {
	err := c.client.stop()
	if c.counter != nil && c.counter != c.client {
		err = closing(err, c.counter.stop)
	}
	return err
}

// contender is one side of a comparison.
type contender struct {
	name    string
	table   string
	stale   bool                                                     // its table is not analysed once it is filled
	tasks   int                                                      // in the backlog; 0: as configured
	counted string                                                   // which of its tasks are the backlog, as a condition; empty: all
	open    string                                                   // which of them have no outcome yet; empty: as River's columns say
	state   string                                                   // a task's state, as an expression; empty: the column state
	prepare func(ctx context.Context, db *database, tasks int) error // migrated and filled
	start   func(ctx context.Context, db *database, set sidecarOptions) (*crew, error)
	ledger  func(ctx context.Context, db *database, c *crew) (ledger, error) // of a drain that is over; nil: from River's columns
}

// ledger is what became of a backlog.
type ledger struct {
	completed int
	again     int       // attempted more than once
	first     time.Time // claim, by the database's clock
}

// fill brings a fresh database into the state that a drain starts from.
func (c contender) fill(ctx context.Context, db *database, tasks int) error {
	if err := c.prepare(ctx, db, tasks); err != nil {
		return err
	}
	if c.stale {
		return db.checkpoint(ctx)
	}
	return db.settle(ctx, c.table)
}

func (r *Runner) river() contender {
	return contender{
		name: "river", table: riverTable,
		prepare: func(ctx context.Context, db *database, tasks int) error {
			if err := migrateRiver(ctx, db.pool); err != nil {
				return err
			}
			return fillRiver(ctx, db.dsn, tasks)
		},
		start: func(ctx context.Context, db *database, _ sidecarOptions) (*crew, error) {
			client, err := r.startRiverClient(ctx, db)
			return &crew{client, client}, err
		},
	}
}

func (r *Runner) sched() contender { return r.schedOver(r.config.Drain.Protocols[0]) }

// schedOver is sched with an app that speaks a protocol.
func (r *Runner) schedOver(protocol string) contender {
	c := contender{
		name: "sched", table: schedTable,
		prepare: func(ctx context.Context, db *database, tasks int) error {
			if err := migrateSched(ctx, db); err != nil {
				return err
			}
			return fillSched(ctx, db, tasks)
		},
		start: r.schedCrew(r.config.Sidecar, protocol),
	}
	if protocol == protocolExec {
		c.tasks = max(1, r.config.Drain.Tasks/execShare)
	}
	return c
}

// schedCrew starts an app and beside it a sidecar by its command.
func (r *Runner) schedCrew(sidecar []string, protocol string) func(context.Context, *database, sidecarOptions) (*crew, error) {
	return func(ctx context.Context, db *database, set sidecarOptions) (*crew, error) {
		app, err := r.startAppOver(ctx, protocol, &set)
		if err != nil {
			return nil, err
		}
		client, err := startSidecarOf(ctx, sidecar, db, app, set)
		if err != nil && app != nil {
			return nil, closing(err, app.stop)
		}
		return &crew{app, client}, err
	}
}

// startAppOver runs an app that speaks a protocol and tells the sidecar's options
// where it is. Over exec there is none to run.
func (r *Runner) startAppOver(ctx context.Context, protocol string, set *sidecarOptions, args ...string) (*child, error) {
	switch protocol {
	case protocolExec:
		set.command = "true"
		return nil, nil
	case protocolGRPC:
		set.listen = "unix://" + newSocket()
		return r.startSessionApp(ctx, set.listen, set.slots, args...)
	case protocolTCP:
		return r.startApp(ctx, args...)
	default:
		socket := newSocket()
		set.url = "unix://" + socket + ":/tasks"
		return r.startApp(ctx, append(args, "-socket", socket)...)
	}
}

// newSocket is the path of a Unix socket for one round. Such a path must be short.
func newSocket() string {
	return filepath.Join(os.TempDir(), "sched-bench-"+rand.Text()[:8]+".sock")
}
