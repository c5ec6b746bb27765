package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sched-sidecar/sched/sql/dbq"
)

// connectTimeout bounds the wait for a server that doesn't answer, unless the
// connection string says otherwise.
const connectTimeout = 10 * time.Second

// applicationName is how the connection shows in pg_stat_activity, and in the
// tasks that it enqueues, unless the connection string says otherwise.
const applicationName = "sched"

// Operator works on one database over one connection. It is not safe for
// concurrent use.
type Operator struct {
	conn *pgx.Conn
	q    *dbq.Queries
}

// Connect opens a connection. An empty string leaves everything to the PG*
// variables.
func Connect(ctx context.Context, dsn string) (*Operator, error) {
	// As a pool's, because the same string serves a sidecar, whose parameters
	// for the pool a single connection would send to the server.
	pool, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("parse the connection string: %w", err)
	}
	cfg := pool.ConnConfig
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = connectTimeout
	}
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = applicationName
	}
	// Unnamed statements are planned for their arguments, and go through
	// poolers that hand out a connection per transaction.
	cfg.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &Operator{conn: conn, q: dbq.New(conn)}, nil
}

// revive opens the connection anew if it was lost.
func (o *Operator) revive(ctx context.Context) error {
	if !o.conn.IsClosed() {
		return nil
	}
	conn, err := pgx.ConnectConfig(ctx, o.conn.Config())
	if err != nil {
		return err
	}
	o.conn, o.q = conn, dbq.New(conn)
	return nil
}

// Close ends the connection.
func (o *Operator) Close(ctx context.Context) error { return o.conn.Close(ctx) }

// Conn is the connection, for the Go API of package jobs.
func (o *Operator) Conn() *pgx.Conn { return o.conn }

// Now is the time by the database's clock.
func (o *Operator) Now(ctx context.Context) (time.Time, error) {
	now, err := o.q.Clock(ctx)
	return now, translate("reading the clock", err)
}

// read runs queries of one answer on one snapshot.
func (o *Operator) read(ctx context.Context, what string, query func(*dbq.Queries) error) error {
	err := pgx.BeginTxFunc(ctx, o.conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT set_config('jit', 'off', true), set_config('timezone', 'UTC', true)"); err != nil {
			return err
		}
		return query(o.q.WithTx(tx))
	})
	return translate(what, err)
}

// decodeAll reads rows in JSON.
func decodeAll[T any](rows [][]byte, keep func(*T, json.RawMessage)) ([]T, error) {
	list := make([]T, len(rows))
	for i, row := range rows {
		if err := json.Unmarshal(row, &list[i]); err != nil {
			return nil, fmt.Errorf("reading row %s: %w", row, err)
		}
		keep(&list[i], row)
	}
	return list, nil
}

func nullText(text string) pgtype.Text {
	return pgtype.Text{String: text, Valid: text != ""}
}

func nullTime(t time.Time) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: t, Valid: !t.IsZero()}
}

func nullID(id int64) pgtype.Int8 {
	return pgtype.Int8{Int64: id, Valid: id != 0}
}
