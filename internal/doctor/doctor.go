package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Level says how a check ended.
type Level string

// The levels of a [Finding].
const (
	OK      Level = "ok"
	Warning Level = "warning" // it works, but not as well as it should, or not for long
	Failed  Level = "failed"  // tasks don't run, run wrongly, or aren't safe
	Skipped Level = "skipped" // it couldn't be looked at
)

// Finding is what a check found. A check has one or more.
type Finding struct {
	Check   string `json:"check"`
	Level   Level  `json:"level"`
	Message string `json:"message"`
	Advice  string `json:"advice,omitempty"` // what to do; never for OK
}

// Options says what to look at.
type Options struct {
	DSN string
	// ListenDSN leads to Postgres itself where DSN leads to a pooler. Empty: DSN.
	ListenDSN string
	// Timeout bounds each check. 0: 5 s.
	Timeout time.Duration

	// From when on something counts as old. 0: 5 minutes.
	OldTransaction time.Duration
	// How many dead rows are many. 0: 100,000.
	ManyDeadRows int64
	// How many transactions may have begun since the oldest that still counts. 0: 10,000,000.
	OldXmin int64
}

func (o Options) withDefaults() Options {
	set := func(d *time.Duration, byDefault time.Duration) {
		if *d == 0 {
			*d = byDefault
		}
	}
	set(&o.Timeout, 5*time.Second)
	set(&o.OldTransaction, 5*time.Minute)
	if o.ListenDSN == "" {
		o.ListenDSN = o.DSN
	}
	if o.ManyDeadRows == 0 {
		o.ManyDeadRows = 100_000
	}
	if o.OldXmin == 0 {
		o.OldXmin = 10_000_000
	}
	return o
}

// patient is what a check looks at.
type patient struct {
	Options
	tx pgx.Tx // read-only; ends with the check
}

// check is one thing to look at. Without the schema sched, only those that don't
// need it are done.
type check struct {
	name        string
	about       string // what it looks at, for the documentation
	needsSchema bool
	look        func(ctx context.Context, p *patient) ([]Finding, error)
}

// checks lists all checks, in the order in which they are done and shown.
func checks() []check {
	return []check{
		{"connection", "the server answers, is a primary, and has connections to spare", false, lookAtConnection},
		{"pooler", "what stands between leaves sessions alone, and notifications go past it", false, lookAtPooler},
		{"schema", "the contract version and the migrations are those of this release, River's tables too", false, lookAtSchema},
		{"rights", "who owns the schema, what this login role may do, nothing open to everybody", true, lookAtRights},
		{"roles", "the roles have the rights that they are for, and no others", true, lookAtRoles},
		{"indexes", "the indexes of sched.river_job are there and valid, and no others of River's", true, lookAtIndexes},
		{"autovacuum", "autovacuum is on, for sched.river_job too, and keeps up with it", true, lookAtAutovacuum},
		{"transactions", "no old transaction, slot or standby keeps vacuum from removing dead rows", false, lookAtTransactions},
		{"notifications", "a notification gets through from one connection to another", false, lookAtNotifications},
		{"clock", "the clock of this machine agrees with the database's", false, lookAtClock},
		{"leader", "a sidecar leads, not another client of River", true, lookAtLeader},
		{"workers", "workers are alive", true, lookAtWorkers},
		{"versions", "live workers are of one version", true, lookAtVersions},
		{"evictions", "no worker was evicted in the last hour", true, lookAtEvictions},
		{"holders", "running tasks are held by live workers of this fleet", true, lookAtHolders},
		{"overdue", "tasks whose time has come are made available", true, lookAtOverdue},
		{"archive", "what ended moves to the archive, and what is too old leaves it", true, lookAtArchive},
		{"queues", "every queue with waiting tasks has a worker and isn't paused", true, lookAtQueues},
		{"routing", "a leader routes, and every queue's demands are offered by somebody", true, lookAtRouting},
		{"pressure", "neither the fleet nor a queue is close to its limits", true, lookAtPressure},
		{"limits", "the limits in force, and whether tasks wait for nothing but them", true, lookAtLimits},
		{"canaries", "canaries have canary workers, and none was rolled back", true, lookAtCanaries},
	}
}

// Run makes all checks and returns what they found. An error means that ctx ended
// first; everything else is a finding.
func Run(ctx context.Context, options Options) ([]Finding, error) {
	options = options.withDefaults()
	conn, err := connect(ctx, options.DSN, options.Timeout)
	if err != nil {
		return []Finding{unreachable(err)}, ctx.Err()
	}
	defer closeConn(ctx, conn)

	var findings []Finding
	hasSchema := true
	for _, c := range checks() {
		if c.needsSchema && !hasSchema {
			findings = append(findings, Finding{Check: c.name, Level: Skipped, Message: "there is no schema sched to look at"})
			continue
		}
		found := examine(ctx, conn, c, options)
		if ctx.Err() != nil {
			return findings, ctx.Err()
		}
		findings = append(findings, found...)
		if conn.IsClosed() {
			return append(findings, Finding{Check: c.name, Level: Failed, Message: "the connection broke during this check", Advice: "run sched doctor again"}), nil
		}
		if c.name == "schema" {
			hasSchema = found[0].Level != Failed || found[0].Message != noSchema
		}
	}
	return findings, nil
}

// examine makes one check. An error becomes a finding of its own.
func examine(ctx context.Context, conn *pgx.Conn, c check, options Options) []Finding {
	// Postgres ends a slow statement by itself; the context is for a server that
	// stopped answering, and costs the connection.
	ctx, cancel := context.WithTimeout(ctx, 2*options.Timeout)
	defer cancel()
	p := &patient{Options: options}
	var found []Finding
	err := pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		p.tx = tx
		// Nothing is set for the session: behind a pooler the next one would get it.
		if _, err := tx.Exec(ctx, fmt.Sprintf("SET LOCAL statement_timeout = %d", options.Timeout.Milliseconds())); err != nil {
			return err
		}
		var err error
		found, err = c.look(ctx, p)
		return err
	})
	if err != nil {
		found = append(found, unreadable(err))
	}
	for i := range found {
		found[i].Check = c.name
	}
	return found
}

// unreadable is the finding of a check that ended with an error.
func unreadable(err error) Finding {
	var pgErr *pgconn.PgError
	switch {
	case errors.As(err, &pgErr) && pgErr.Code == "42501": // insufficient_privilege
		return Finding{Level: Skipped, Message: pgErr.Message, Advice: "run sched doctor with a login role that has sched_sidecar's or sched_owner's rights"}
	case errors.As(err, &pgErr) && pgErr.Code == "57014": // query_canceled
		return Finding{Level: Warning, Message: "the database took too long to answer", Advice: "see what else it is doing, or allow more time with --timeout"}
	}
	return Finding{Level: Warning, Message: fmt.Sprintf("could not be looked at: %v", err), Advice: "run sched doctor again; if it stays so, this release and the schema don't fit"}
}

func ok(format string, args ...any) Finding {
	return Finding{Level: OK, Message: fmt.Sprintf(format, args...)}
}

// Worst returns the worst level among findings: failed, warning, skipped or ok.
func Worst(findings []Finding) Level {
	rank := map[Level]int{OK: 0, Skipped: 1, Warning: 2, Failed: 3}
	worst := OK
	for _, f := range findings {
		if rank[f.Level] > rank[worst] {
			worst = f.Level
		}
	}
	return worst
}
