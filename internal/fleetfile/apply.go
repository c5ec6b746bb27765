package fleetfile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sched-sidecar/sched/sql/dbq"
)

// DB is what this package needs of a connection or a pool.
type DB interface {
	dbq.DBTX
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// Options are how a file is applied.
type Options struct {
	Prune bool // remove what the file's sections don't have
}

// ErrBusy is returned by [Apply] when others keep changing the same rows, or
// hold them in an open transaction.
var ErrBusy = errors.New("others are changing the same rows: run it again")

const (
	// applyTries bounds how often an apply begins anew because an open
	// transaction is making a queue that the file has, too.
	applyTries = 20
	applyPause = 100 * time.Millisecond
	lockLimit  = "10s"
)

// Read returns the state of the database.
func Read(ctx context.Context, db DB) (Fleet, error) {
	var fleet Fleet
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, db, options, func(tx pgx.Tx) (err error) {
		fleet, err = load(ctx, dbq.New(tx))
		return err
	})
	return fleet, err
}

// Plan returns what [Apply] would do now. It changes nothing and waits for
// nobody.
func Plan(ctx context.Context, db DB, file Fleet, opts Options) ([]Change, error) {
	database, err := Read(ctx, db)
	if err != nil {
		return nil, err
	}
	return Diff(file, database, opts.Prune), nil
}

// Apply makes the database follow the file, all or nothing, and returns what it
// did and what it left alone.
func Apply(ctx context.Context, db DB, file Fleet, opts Options) ([]Change, error) {
	for try := 1; ; try++ {
		var changes []Change
		err := pgx.BeginTxFunc(ctx, db, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) (err error) {
			changes, err = apply(ctx, tx, file, opts)
			return err
		})
		var pgErr *pgconn.PgError
		switch {
		case err == nil:
			return changes, nil
		case errors.As(err, &pgErr) && pgErr.Code == codeLockNotAvailable:
			return nil, fmt.Errorf("%w (an open transaction holds them for more than %s)", ErrBusy, lockLimit)
		case !errors.Is(err, ErrBusy) || try == applyTries:
			return nil, err
		}
		select {
		case <-time.After(applyPause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

const codeLockNotAvailable = "55P03"

func apply(ctx context.Context, tx pgx.Tx, file Fleet, opts Options) ([]Change, error) {
	if _, err := tx.Exec(ctx, "SELECT set_config('lock_timeout', $1, true)", lockLimit); err != nil {
		return nil, err
	}
	q := dbq.New(tx)
	if err := q.FleetLock(ctx); err != nil {
		return nil, fmt.Errorf("lock kinds and settings: %w", err)
	}
	database, err := load(ctx, q)
	if err != nil {
		return nil, err
	}
	changes := Diff(file, database, opts.Prune)
	for _, c := range changes {
		if err := write(ctx, q, c); err != nil {
			return nil, fmt.Errorf("%s %s: %w", c.Section.One(), c.Entry.Title(), err)
		}
	}
	return changes, nil
}

// write makes one change. That nothing was written means that the row was pinned
// or went since it was read.
func write(ctx context.Context, q *dbq.Queries, c Change) error {
	if c.Action != Add && c.Action != Alter && c.Action != Remove {
		return nil
	}
	var rows int64
	var err error
	switch c.Section {
	case Settings:
		rows, err = writeSetting(ctx, q, c)
	case Queues:
		rows, err = writeQueue(ctx, q, c)
	case Kinds:
		rows, err = writeKind(ctx, q, c)
	case Schedules:
		rows, err = writeSchedule(ctx, q, c)
	}
	if err == nil && rows == 0 {
		return ErrBusy
	}
	return err
}

func writeSetting(ctx context.Context, q *dbq.Queries, c Change) (int64, error) {
	f, _ := fieldOf(settingFields(), c.Entry.Name)
	value := c.Entry.Values[settingKey]
	if c.Action == Remove {
		value = f.Default
	}
	text, err := json.Marshal(value)
	if err != nil {
		return 0, err
	}
	return q.FleetSettingPut(ctx, dbq.FleetSettingPutParams{Key: f.Key, Value: text, Description: f.Doc})
}

func writeQueue(ctx context.Context, q *dbq.Queries, c Change) (int64, error) {
	selector, err := json.Marshal(c.Entry.Selector)
	if err != nil {
		return 0, err
	}
	if c.Entry.Selector == nil {
		selector = []byte("{}")
	}
	if c.Action == Add {
		added, err := q.FleetQueueAdd(ctx, dbq.FleetQueueAddParams{Base: c.Entry.Name, Selector: selector, Protocol: c.Entry.Protocol})
		if err == nil && !added {
			err = ErrBusy
		}
		if err != nil {
			return 0, err
		}
	}
	values := c.Entry.Values
	if c.Action == Remove {
		values = Values{}
	}
	text, err := values.toJSON()
	if err != nil {
		return 0, err
	}
	return q.FleetQueuePut(ctx, dbq.FleetQueuePutParams{Values: text, Base: c.Entry.Name, Selector: selector, Protocol: c.Entry.Protocol})
}

func writeKind(ctx context.Context, q *dbq.Queries, c Change) (int64, error) {
	if c.Action == Remove {
		return q.FleetKindRemove(ctx, c.Entry.Name)
	}
	text, err := c.Entry.Values.toJSON()
	if err != nil {
		return 0, err
	}
	return q.FleetKindPut(ctx, dbq.FleetKindPutParams{Kind: c.Entry.Name, Values: text})
}

func writeSchedule(ctx context.Context, q *dbq.Queries, c Change) (int64, error) {
	if c.Action == Remove {
		return q.FleetScheduleRemove(ctx, c.Entry.Name)
	}
	text, err := c.Entry.Values.toJSON()
	if err != nil {
		return 0, err
	}
	return q.FleetSchedulePut(ctx, dbq.FleetSchedulePutParams{Name: c.Entry.Name, Values: text})
}
