package pooler

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// execModeParam is how a connection string chooses an exec mode.
	execModeParam = "default_query_exec_mode"
	// sharedTries is how often Shared looks. One look is enough where a pooler
	// prefers the server process that was used last, unless others are quicker.
	sharedTries  = 10
	closeTimeout = 2 * time.Second
)

// Adapt connects once in the way of config and reports whether a pooler answers.
// If so it makes config send statements that no session has to remember, unless
// its connection string names an exec mode itself.
//
// The error is that of connecting, or of a server that doesn't answer.
func Adapt(ctx context.Context, config *pgx.ConnConfig) (pooled bool, err error) {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return false, err
	}
	defer func() {
		closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		_ = conn.Close(closeCtx) // it goes either way
	}()
	if pooled, err = Between(ctx, conn); err != nil {
		return false, err
	}
	if pooled && !strings.Contains(config.ConnString(), execModeParam) {
		// Unnamed statements, parsed anew each time, with descriptions that are
		// kept on our side: every value keeps its type on the wire.
		config.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	return pooled, nil
}

// Between reports whether a pooler answers conn.
func Between(ctx context.Context, conn *pgx.Conn) (bool, error) {
	pid, err := serverProcess(ctx, conn)
	if err != nil {
		return false, err
	}
	return pid != conn.PgConn().PID(), nil
}

// Shared reports whether a pooler serves the connections a and b, neither of which
// is in a transaction, with the same server processes. False doesn't exclude it
// when the pooler is busy.
func Shared(ctx context.Context, a, b *pgx.Conn) (bool, error) {
	var before uint32
	for range sharedTries {
		ofA, err := serverProcess(ctx, a)
		if err != nil {
			return false, err
		}
		ofB, err := serverProcess(ctx, b)
		if err != nil {
			return false, err
		}
		if ofA == ofB || before != 0 && ofA != before {
			return true, nil
		}
		before = ofA
	}
	return false, nil
}

// serverProcess asks for the id of the server process that answers, in the simple
// protocol, which leaves nothing behind.
func serverProcess(ctx context.Context, conn *pgx.Conn) (uint32, error) {
	results, err := conn.PgConn().Exec(ctx, "SELECT pg_backend_pid()").ReadAll()
	if err != nil {
		return 0, fmt.Errorf("ask for the server's process id: %w", err)
	}
	if len(results) != 1 || len(results[0].Rows) != 1 {
		return 0, errors.New("ask for the server's process id: no answer")
	}
	pid, err := strconv.ParseUint(string(results[0].Rows[0][0]), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("ask for the server's process id: %w", err)
	}
	return uint32(pid), nil
}
