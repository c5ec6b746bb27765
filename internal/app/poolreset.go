package app

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// poolResetter drops a pool's connections once one of them shows that they lead
// to the wrong place: a primary that became read-only, a server that is going
// down, one that doesn't answer any more. The next statement connects anew, to the
// new primary if there is one.
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
		r.reset()
	}
}

// shouldPing makes sure itself that a connection which was idle for a while still
// lives. A server that was cut off says nothing: without this each connection
// would be found out by a statement of its own that waits in vain.
func (r *poolResetter) shouldPing(ctx context.Context, params pgxpool.ShouldPingParams) bool {
	if params.IdleDuration < pingAfter {
		return false
	}
	pingCtx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	err := params.Conn.Ping(pingCtx)
	if err != nil && pingCtx.Err() != nil && ctx.Err() == nil {
		r.reset()
	}
	return err != nil // the pool's own ping then finds it closed, and drops it
}

func (r *poolResetter) reset() {
	pool, now, last := r.pool.Load(), time.Now().UnixNano(), r.last.Load()
	if pool != nil && now-last > int64(resetEvery) && r.last.CompareAndSwap(last, now) {
		pool.Reset()
	}
}
