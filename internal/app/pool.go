package app

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sched-sidecar/sched/internal/config"
)

const connectTimeout = 10 * time.Second

// openPool opens a pool and makes sure that the database answers.
func openPool(ctx context.Context, cfg config.Database, name string) (*pgxpool.Pool, error) {
	poolConfig, err := pgxpool.ParseConfig(cfg.URL.Reveal())
	if err != nil {
		return nil, fmt.Errorf("database.url: %w", err)
	}
	poolConfig.MaxConns = int32(cfg.PoolMax)
	prepareConn(poolConfig.ConnConfig, name)
	resetter := &poolResetter{}
	poolConfig.ConnConfig.Tracer = resetter
	pool, err := pgxpool.NewWithConfig(ctx, poolConfig)
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", cfg.URL, err)
	}
	resetter.pool.Store(pool)
	pingCtx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if err := pool.Ping(pingCtx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("no connection to the database %s: %w; check database.url (SCHED_DATABASE_URL) and that Postgres runs", cfg.URL, err)
	}
	return pool, nil
}

// closePool closes the pool, but for connections that don't end in time: those
// go with the process.
func closePool(pool *pgxpool.Pool) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		pool.Close()
	}()
	select {
	case <-closed:
	case <-time.After(poolCloseTimeout):
	}
}

// listenConfig says how to connect for notifications; nil: as the pool does.
func listenConfig(cfg config.Database, name string) (*pgx.ConnConfig, error) {
	if cfg.ListenURL == "" {
		return nil, nil //nolint:nilnil // nil is the pool's own way
	}
	conn, err := pgx.ParseConfig(cfg.ListenURL.Reveal())
	if err != nil {
		return nil, fmt.Errorf("database.listen_url: %w", err)
	}
	prepareConn(conn, name)
	return conn, nil
}

// prepareConn fills in what a connection string usually leaves out.
func prepareConn(conn *pgx.ConnConfig, name string) {
	if conn.RuntimeParams["application_name"] == "" {
		conn.RuntimeParams["application_name"] = name
	}
	if conn.ConnectTimeout == 0 {
		conn.ConnectTimeout = connectTimeout
	}
	// Several hosts are a primary and its standbys, in an order that may change,
	// and nothing here works on a standby.
	if len(conn.Fallbacks) > 0 && conn.ValidateConnect == nil {
		conn.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
}

// poolResetter drops a pool's connections once a statement shows that they lead
// to the wrong place: a primary that became read-only, or a server going down.
// The next statement connects anew, to the new primary if there is one.
type poolResetter struct {
	pool atomic.Pointer[pgxpool.Pool]
	last atomic.Int64 // unix nanoseconds of the last reset
}

// resetEvery keeps a burst of failures from resetting a pool that heals already.
const resetEvery = time.Second

// TraceQueryStart is there for the interface.
func (r *poolResetter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

// TraceQueryEnd looks at how a statement ended.
func (r *poolResetter) TraceQueryEnd(_ context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	var pgErr *pgconn.PgError
	if data.Err == nil || !errors.As(data.Err, &pgErr) {
		return
	}
	switch pgErr.Code {
	case "25006", // read_only_sql_transaction
		"57P01", // admin_shutdown
		"57P02", // crash_shutdown
		"57P03": // cannot_connect_now
	default:
		return
	}
	pool, now, last := r.pool.Load(), time.Now().UnixNano(), r.last.Load()
	if pool != nil && now-last > int64(resetEvery) && r.last.CompareAndSwap(last, now) {
		pool.Reset()
	}
}
