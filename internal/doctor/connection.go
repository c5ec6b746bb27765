package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	oldestServer  = 140000 // as server_version_num: what Postgres itself still maintains
	fullShare     = 0.85   // of the connections that login roles may have
	clockSlack    = 2 * time.Second
	farRoundTrip  = 20 * time.Millisecond
	goodbye       = time.Second
	roundTripsMin = 5
	roundTripsMax = 50 // on a machine that is too busy to tell
)

// connect opens a connection that leaves nothing behind, with or without a pooler.
func connect(ctx context.Context, dsn string, limit time.Duration) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	config.ConnectTimeout = limit
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "sched doctor"
	}
	// A pooler may hand each transaction to another server connection, which
	// doesn't know of statements prepared on this one.
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	return pgx.ConnectConfig(ctx, config)
}

func closeConn(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
	defer cancel()
	_ = conn.Close(ctx) // it goes either way
}

func unreachable(err error) Finding {
	return Finding{
		Check: "connection", Level: Failed, Message: err.Error(),
		Advice: "check --dsn or SCHED_DATABASE_URL, that Postgres runs, and that this machine may connect to it",
	}
}

// server is what the connection leads to.
type server struct {
	version, role, database string
	number                  int // server_version_num
	used, limit             int // connections
	standby                 bool
	trip                    time.Duration
}

func lookAtConnection(ctx context.Context, p *patient) ([]Finding, error) {
	var s server
	err := p.tx.QueryRow(ctx, `SELECT current_setting('server_version'), current_setting('server_version_num')::int,
			session_user, current_database(), pg_is_in_recovery(),
			(SELECT coalesce(sum(d.numbackends), 0)::int FROM pg_stat_database AS d), -- of others' sessions pg_stat_activity hides what they are
			current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int`).
		Scan(&s.version, &s.number, &s.role, &s.database, &s.standby, &s.used, &s.limit)
	if err != nil {
		return nil, err
	}
	if s.trip, err = roundTrip(ctx, p.tx); err != nil {
		return nil, err
	}
	return judgeServer(s), nil
}

func judgeServer(s server) []Finding {
	found := []Finding{ok("PostgreSQL %s, database %s as role %s, round trip %s, %d of %d connections used",
		s.version, s.database, s.role, rounded(s.trip), s.used, s.limit)}
	if s.standby {
		found = append(found, Finding{
			Level: Failed, Message: "this server is a standby: nothing can be enqueued or settled on it",
			Advice: "connect to the primary, or list both hosts in the connection string with target_session_attrs=read-write",
		})
	}
	if s.number < oldestServer {
		found = append(found, Finding{
			Level: Warning, Message: fmt.Sprintf("PostgreSQL %s is out of maintenance", s.version), Advice: "upgrade the server to 14 or later",
		})
	}
	if float64(s.used) >= fullShare*float64(s.limit) {
		found = append(found, Finding{
			Level: Warning, Message: fmt.Sprintf("%d of %d connections are used: sidecars and apps will soon be refused", s.used, s.limit),
			Advice: "lower database.pool_max of the sidecars or the pools of the apps, put a pooler in front, or raise max_connections",
		})
	}
	if s.trip > farRoundTrip {
		found = append(found, Finding{
			Level: Warning, Message: fmt.Sprintf("a round trip to the database takes %s from here", rounded(s.trip)),
			Advice: "if sidecars run this far away, run them nearer: a task takes two round trips or more",
		})
	}
	return found
}

// roundTrip is the fastest of a few; of more, for about a second, as long as none
// was near.
func roundTrip(ctx context.Context, tx pgx.Tx) (time.Duration, error) {
	fastest, begun := time.Duration(math.MaxInt64), time.Now()
	for n := range roundTripsMax {
		if n >= roundTripsMin && (fastest <= farRoundTrip || time.Since(begun) > roundTripsMax*farRoundTrip) {
			break
		}
		started := time.Now()
		if _, err := tx.Exec(ctx, "SELECT 1"); err != nil {
			return 0, err
		}
		fastest = min(fastest, time.Since(started))
	}
	return fastest, nil
}

// rounded cuts a duration to what a person reads.
func rounded(d time.Duration) time.Duration {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second)
	case d >= time.Second:
		return d.Round(100 * time.Millisecond)
	default:
		return d.Round(10 * time.Microsecond)
	}
}

// lookAtNotifications listens on one connection and notifies on another, which is
// how an enqueue wakes a sidecar.
func lookAtNotifications(ctx context.Context, p *patient) ([]Finding, error) {
	advice := "sidecars poll instead: tasks start up to poll_interval late, cancels take up to 2 s. Behind a pooler in transaction mode set database.listen_url to Postgres itself (--listen-dsn here)"
	trip, err := notifyMyself(ctx, p)
	if err != nil {
		return []Finding{{Level: Warning, Message: fmt.Sprintf("no notification gets through: %v", err), Advice: advice}}, nil
	}
	var used float64
	if err := p.tx.QueryRow(ctx, `SELECT pg_notification_queue_usage()`).Scan(&used); err != nil {
		return nil, err
	}
	found := []Finding{ok("a notification gets through in %s", rounded(trip))}
	if used > 0.5 {
		found = append(found, Finding{
			Level: Warning, Message: fmt.Sprintf("the notification queue of the server is %.0f %% full; when it is full, enqueues that notify fail", 100*used),
			Advice: "find the listening session that is stuck in a long transaction (SELECT * FROM pg_stat_activity WHERE query LIKE 'LISTEN%') and end it",
		})
	}
	off, err := notifyIsOff(ctx, p)
	if off {
		found = append(found, Finding{
			Level: Warning, Message: "the setting notify is false: enqueueing wakes nobody, tasks start at the next poll",
			Advice: "if that isn't on purpose: UPDATE sched.setting SET value = 'true' WHERE key = 'notify'",
		})
	}
	return found, err
}

// notifyIsOff says whether notifications are switched off. Without the schema, or
// the right to read the setting, they aren't known to be.
func notifyIsOff(ctx context.Context, p *patient) (bool, error) {
	var readable, off bool
	err := p.tx.QueryRow(ctx, `SELECT CASE WHEN n.oid IS NULL THEN false ELSE has_schema_privilege(n.oid, 'USAGE') END
			AND coalesce((SELECT has_table_privilege(c.oid, 'SELECT') FROM pg_class AS c WHERE c.relnamespace = n.oid AND c.relname = 'setting'), false)
		FROM (SELECT) AS one LEFT JOIN pg_namespace AS n ON n.nspname = 'sched'`).Scan(&readable)
	if err != nil || !readable {
		return false, err
	}
	err = p.tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM sched.setting WHERE key = 'notify' AND value = 'false')`).Scan(&off)
	return off, err
}

func notifyMyself(ctx context.Context, p *patient) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	listener, err := connect(ctx, p.ListenDSN, p.Timeout)
	if err != nil {
		return 0, err
	}
	defer closeConn(ctx, listener)
	sender, err := connect(ctx, p.DSN, p.Timeout)
	if err != nil {
		return 0, err
	}
	defer closeConn(ctx, sender)

	channel := "sched.doctor." + rand.Text()
	if _, err := listener.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
		return 0, err
	}
	started := time.Now()
	if _, err := sender.Exec(ctx, "SELECT pg_notify($1, 'ping')", channel); err != nil {
		return 0, err
	}
	if _, err := listener.WaitForNotification(ctx); err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return 0, fmt.Errorf("sent, but not received within %s", p.Timeout)
		}
		return 0, err
	}
	return time.Since(started), nil
}

// lookAtClock compares this machine's clock. Only times that cross the border
// matter: an app's run_at, a signature's timestamp, Sched-Deadline.
func lookAtClock(ctx context.Context, p *patient) ([]Finding, error) {
	var there time.Time
	before := time.Now()
	if err := p.tx.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&there); err != nil {
		return nil, err
	}
	trip := time.Since(before)
	difference := before.Add(trip / 2).Sub(there)
	return []Finding{judgeClock(difference, trip/2)}, nil
}

// judgeClock says whether a clock that is ahead by difference, give or take
// error, is a trouble.
func judgeClock(difference, uncertainty time.Duration) Finding {
	if difference.Abs()-uncertainty <= clockSlack {
		return ok("the clock of this machine differs by %s from the database's (± %s)", rounded(difference), rounded(uncertainty))
	}
	direction := "ahead of"
	if difference < 0 {
		direction = "behind"
	}
	return Finding{
		Level: Warning, Message: fmt.Sprintf("the clock of this machine is %s %s the database's", rounded(difference.Abs()), direction),
		Advice: "synchronize both with NTP: an app's run_at comes early or late by as much, and at 5 minutes signatures are refused. Leases and evictions go by the database's clock alone",
	}
}
