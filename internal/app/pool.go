package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sched-sidecar/sched/internal/config"
	"github.com/sched-sidecar/sched/internal/pooler"
)

const (
	// connectTimeout bounds the first connection as a whole, and each later one
	// for each address.
	connectTimeout = 10 * time.Second
	// nextHostTimeout takes its place where there is another host to try: one that
	// is cut off must not take the time in which the next one could have answered.
	nextHostTimeout = 3 * time.Second
	// pingAfter is for how long a connection may have been idle and is still used
	// without asking whether it lives; pingTimeout is how long the answer may take.
	pingAfter   = time.Second
	pingTimeout = 2 * time.Second
	// idleInTransaction frees the locks of a sidecar whose machine is gone in the
	// middle of a transaction. No transaction of ours is idle for long.
	idleInTransaction = 10 * time.Second
	// surplusAfter closes connections that a busy moment left behind. A fleet is
	// many pools on one server.
	surplusAfter = 2 * time.Minute
)

// openPool opens a pool and makes sure that the database answers. Through a
// pooler it sends what works through one.
func openPool(ctx context.Context, cfg config.Database, name string, logger *slog.Logger) (*pgxpool.Pool, error) {
	poolConfig, err := connConfig(cfg.URL, name)
	if err != nil {
		return nil, fmt.Errorf("database.url: %w", err)
	}
	conn := poolConfig.ConnConfig
	firstCtx, cancel := context.WithTimeout(ctx, max(connectTimeout, conn.ConnectTimeout*time.Duration(len(hosts(conn)))))
	defer cancel()
	pooled, err := pooler.Adapt(firstCtx, conn)
	if err != nil {
		advice := "and that Postgres runs"
		if errors.Is(err, pgconn.ErrReadOnlyConnection) {
			advice = "which has to name the primary, or all hosts that may become it: no server that it leads to takes writes"
		}
		return nil, fmt.Errorf("no connection to the database %s: %w; check database.url (SCHED_DATABASE_URL) %s", cfg.URL, err, advice)
	}
	if pooled {
		logger.InfoContext(ctx, "database.url leads through a connection pooler",
			slog.String("exec_mode", conn.DefaultQueryExecMode.String()), slog.Bool("listen_url", cfg.ListenURL != ""))
	}
	resetter := &poolResetter{}
	conn.Tracer = resetter
	// Nobody reads notifications here, and pgx would keep them for ever: through a
	// pooler in transaction mode those of whoever listened last come this way.
	conn.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) {}
	poolConfig.MaxConns = int32(cfg.PoolMax)
	if !strings.Contains(poolConfig.ConnString(), "pool_max_conn_idle_time") {
		poolConfig.MaxConnIdleTime = surplusAfter
	}
	poolConfig.AfterConnect = setUpSession
	poolConfig.ShouldPing = resetter.shouldPing
	pool, err := pgxpool.NewWithConfig(ctx, poolConfig)
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", cfg.URL, err)
	}
	resetter.pool.Store(pool)
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

// listenConfig says how to connect for notifications.
func listenConfig(cfg config.Database, name string) (*pgx.ConnConfig, error) {
	key, dsn := "database.listen_url", cfg.ListenURL
	if dsn == "" {
		key, dsn = "database.url", cfg.URL
	}
	poolConfig, err := connConfig(dsn, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return poolConfig.ConnConfig, nil
}

// connConfig parses a connection string, a pool's or not, and fills in what it
// usually leaves out.
func connConfig(dsn config.DSN, name string) (*pgxpool.Config, error) {
	poolConfig, err := pgxpool.ParseConfig(dsn.Reveal())
	if err != nil {
		return nil, err
	}
	conn := poolConfig.ConnConfig
	if conn.RuntimeParams["application_name"] == "" {
		conn.RuntimeParams["application_name"] = name
	}
	if conn.ConnectTimeout == 0 {
		conn.ConnectTimeout = connectTimeout
		if len(hosts(conn)) > 1 {
			conn.ConnectTimeout = nextHostTimeout
		}
	}
	// Several hosts are a primary and its standbys, in an order that may change;
	// one name may come to stand for another server. Nothing here works on one
	// that only reads.
	if conn.ValidateConnect == nil {
		conn.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	return poolConfig, nil
}

// hosts are the addresses that a connection string names, each once: with and
// without TLS is the same host.
func hosts(conn *pgx.ConnConfig) map[string]struct{} {
	addresses := make(map[string]struct{})
	add := func(host string, port uint16) {
		network, address := pgconn.NetworkAddress(host, port)
		addresses[network+" "+address] = struct{}{}
	}
	add(conn.Host, conn.Port)
	for _, fallback := range conn.Fallbacks {
		add(fallback.Host, fallback.Port)
	}
	return addresses
}

// setUpSession sets in a new session what administrators leave at its default, or
// choose for other uses. A pooler's session isn't only ours, and is left alone.
//
// No transaction of ours is idle for long; a stricter or another limit than none
// stays. The statements that claim skip rows which others hold: where transactions
// must look as if they came one after the other, that is a conflict each time.
//
// Plans are made once, mostly while the table of tasks is empty. To read a table that is
// empty as a whole is as cheap as an index, and would stay the plan when a million tasks
// are in it; every statement that runs often has its index. Without that way a plan may
// look so dear that compiling it seems to pay.
func setUpSession(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.PgConn().Exec(ctx, fmt.Sprintf(`SELECT
			set_config('default_transaction_isolation', 'read committed', false),
			set_config('enable_seqscan', 'off', false), set_config('jit', 'off', false),
			CASE WHEN current_setting('plan_cache_mode') = 'auto' THEN set_config('plan_cache_mode', 'force_generic_plan', false) END,
			CASE WHEN current_setting('idle_in_transaction_session_timeout') = '0'
				THEN set_config('idle_in_transaction_session_timeout', '%d', false) END
		WHERE pg_backend_pid() = %d::bigint`, idleInTransaction.Milliseconds(), conn.PgConn().PID())).ReadAll()
	return err
}
