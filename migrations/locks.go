package migrations

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	// lockTimeoutFirst and lockTimeoutMost bound how long a migration asks for a
	// table that is in use. New statements on the table wait behind it meanwhile,
	// so it begins with a moment that nobody notices, and grows patient only when
	// that never suffices.
	lockTimeoutFirst = 250 * time.Millisecond
	lockTimeoutMost  = 8 * time.Second
	// lockPatience is how long a migration keeps asking altogether.
	lockPatience = 10 * time.Minute
)

// waitForLocks runs a step of migrations again and again until no open
// transaction stands in its way. Each SQL migration is a transaction, so what a
// lock stopped has changed nothing.
func (s *session) waitForLocks(ctx context.Context, step func() error) error {
	began := time.Now()
	for timeout := lockTimeoutFirst; ; timeout = min(2*timeout, lockTimeoutMost) {
		s.lockTimeout = timeout
		err := step()
		if !hasCode(err, codeLockNotAvailable) {
			return err
		}
		holder := s.lockHolder(ctx)
		if time.Since(began) > lockPatience {
			return fmt.Errorf("%w; for %s a table was in use whenever it was asked for (the oldest open transaction: %s): end that, and run this again: what was done so far is kept",
				err, lockPatience, holder)
		}
		s.opts.Logger.WarnContext(ctx, "a table is in use: waiting for open transactions to end, then trying again", "oldest", holder, "asked_for", timeout)
		// Time for those who waited behind.
		select {
		case <-time.After(timeout + rand.N(timeout)):
		case <-ctx.Done():
			return fmt.Errorf("wait for a table that is in use: %w", context.Cause(ctx))
		}
	}
}

// lockHolder names the oldest transaction that holds a table of the schema, for
// people. It needs no success: a login role may see too little.
func (s *session) lockHolder(ctx context.Context) string {
	var (
		pid  int
		app  string
		user string
		open time.Duration
	)
	err := s.lock.QueryRow(ctx, `SELECT a.pid, coalesce(a.application_name, ''), coalesce(a.usename, ''), clock_timestamp() - a.xact_start
		FROM pg_stat_activity AS a
		WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.xact_start IS NOT NULL AND EXISTS (
			SELECT FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation
			WHERE l.pid = a.pid AND l.granted AND c.relnamespace = 'sched'::regnamespace)
		ORDER BY a.xact_start LIMIT 1`).Scan(&pid, &app, &user, &open)
	if err != nil {
		return "unknown"
	}
	return fmt.Sprintf("process %d of %s, application %s, open for %s", pid, user, app, open.Round(time.Millisecond))
}
