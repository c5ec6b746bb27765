package jobs

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
)

// DB is what the functions of this package call the SQL API on. Of pgx,
// *pgxpool.Pool, *pgxpool.Conn, *pgx.Conn and pgx.Tx are DBs as they are; for
// database/sql see [SQL]. What is called on a transaction, or on a connection
// that has one open, happens when that transaction commits.
type DB interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Tx is a [DB] that is a transaction for certain: with it, the compiler
// refuses the pool that was passed by mistake. Of pgx, every pgx.Tx is one;
// for database/sql see [SQLTx].
type Tx interface {
	DB
	Commit(ctx context.Context) error
	Rollback(ctx context.Context) error
}

// SQLQuerier is the part of database/sql that this package uses: *sql.DB,
// *sql.Conn and *sql.Tx have it, and so do most libraries built on them.
type SQLQuerier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// SQLTransaction is a [SQLQuerier] that is a transaction: *sql.Tx, or what
// embeds one.
type SQLTransaction interface {
	SQLQuerier
	Commit() error
	Rollback() error
}

// SQL makes a [DB] of a *sql.DB, *sql.Conn or *sql.Tx with a driver for
// Postgres: pgx's stdlib, or lib/pq from v1.10 on.
func SQL(q SQLQuerier) DB { return sqlDB{q} }

// SQLTx makes a [Tx] of a *sql.Tx.
func SQLTx(tx SQLTransaction) Tx { return sqlTx{sqlDB{tx}, tx} }

type sqlDB struct{ q SQLQuerier }

func (d sqlDB) QueryRow(ctx context.Context, query string, args ...any) pgx.Row {
	return d.q.QueryRowContext(ctx, query, args...)
}

type sqlTx struct {
	sqlDB
	tx SQLTransaction
}

func (t sqlTx) Commit(context.Context) error   { return t.tx.Commit() }
func (t sqlTx) Rollback(context.Context) error { return t.tx.Rollback() }
