package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sched-sidecar/sched/sql/dbq"
)

const (
	// statementTimeout is what Postgres is given for a statement, answerTimeout what
	// a page waits for one answer, a free connection included.
	statementTimeout = 3 * time.Second
	answerTimeout    = 5 * time.Second
)

// reader reads through the sidecar's pool, over few of its connections.
type reader struct {
	pool  *pgxpool.Pool
	turns chan struct{}
}

func newReader(pool *pgxpool.Pool, connections int) *reader {
	return &reader{pool: pool, turns: make(chan struct{}, connections)}
}

// read runs the queries of one answer in a transaction that only reads. now is the
// database's time. Statements are planned for the arguments at hand: lists are found
// by quite different indexes.
func (r *reader) read(ctx context.Context, query func(ctx context.Context, q *dbq.Queries, now time.Time) error) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	select {
	case r.turns <- struct{}{}:
		defer func() { <-r.turns }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return pgx.BeginTxFunc(ctx, r.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		var now time.Time
		err := tx.QueryRow(ctx, `SELECT clock_timestamp() FROM (SELECT
			set_config('statement_timeout', $1, true), set_config('plan_cache_mode', 'force_custom_plan', true),
			set_config('jit', 'off', true), set_config('enable_seqscan', 'on', true), set_config('timezone', 'UTC', true)) AS s`,
			fmt.Sprint(statementTimeout.Milliseconds())).Scan(&now)
		if err != nil {
			return err
		}
		return query(ctx, dbq.New(tx), now)
	})
}

// decode reads rows in JSON.
func decode[T any](rows [][]byte) ([]T, error) {
	list := make([]T, len(rows))
	for i, row := range rows {
		if err := json.Unmarshal(row, &list[i]); err != nil {
			return nil, fmt.Errorf("reading a row: %w", err)
		}
	}
	return list, nil
}

// trouble is why something can't be shown, for people.
type trouble struct {
	What   string // a headline
	Advice string
	Away   bool // it may pass by itself
	status int
}

// SQLSTATEs that say something about the reader rather than about Postgres.
const (
	stateDenied    = "42501"
	stateNoTable   = "42P01"
	stateNoColumn  = "42703"
	stateNoRoutine = "42883"
	stateCanceled  = "57014"
)

// troubleOf translates an error; nil for none.
func troubleOf(err error) *trouble {
	if err == nil {
		return nil
	}
	var pg *pgconn.PgError
	code := ""
	if errors.As(err, &pg) {
		code = pg.Code
	}
	switch {
	case code == stateDenied:
		return &trouble{What: "Not readable", Advice: "The database role of this sidecar lacks the right: " + pg.Message + ". Grant it sched_sidecar.", status: 200}
	case code == stateNoTable || code == stateNoColumn || code == stateNoRoutine:
		return &trouble{What: "Not in this database", Advice: "The schema is of another version than this sidecar: " + pg.Message + ". Run sched migrate up.", status: 200}
	case code == stateCanceled || errors.Is(err, context.DeadlineExceeded):
		return &trouble{What: "Postgres took too long", Advice: "It was given three seconds. This page tries again by itself; narrower filters are faster.", Away: true, status: 503}
	default:
		return &trouble{What: "Postgres does not answer", Advice: "Tasks wait safely meanwhile, and sidecars come back by themselves. So does this page.", Away: true, status: 503}
	}
}
