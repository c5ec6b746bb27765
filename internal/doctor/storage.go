package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// indexes are those of sched.river_job that this release relies on, and how to
// make one that is missing. A test holds them to the migrations.
func indexes() map[string]string {
	return map[string]string{
		"river_job_pkey":                         "UNIQUE INDEX river_job_pkey ON sched.river_job USING btree (id)",
		"river_job_unique_idx":                   "UNIQUE INDEX river_job_unique_idx ON sched.river_job USING btree (unique_key) WHERE ((unique_key IS NOT NULL) AND (unique_states IS NOT NULL) AND sched.river_job_state_in_bitmask(unique_states, state))",
		"river_job_state_and_finalized_at_index": "INDEX river_job_state_and_finalized_at_index ON sched.river_job USING btree (state, finalized_at) WHERE (finalized_at IS NOT NULL)",
		"sched_river_job_available":              "INDEX sched_river_job_available ON sched.river_job USING btree (queue, priority, scheduled_at, id) WHERE (state = 'available'::sched.river_job_state)",
		"sched_river_job_due":                    "INDEX sched_river_job_due ON sched.river_job USING btree (scheduled_at, id) WHERE (state = ANY (ARRAY['retryable'::sched.river_job_state, 'scheduled'::sched.river_job_state]))",
		"sched_river_job_status_start":           "INDEX sched_river_job_status_start ON sched.river_job USING btree (state, attempted_at)",
		"sched_river_job_batch":                  "INDEX sched_river_job_batch ON sched.river_job USING btree (((metadata ->> 'sched:batch'::text))) WHERE ((metadata ->> 'sched:batch'::text) IS NOT NULL)",
	}
}

// dropped are River's indexes that the migrations remove: nothing here uses them,
// and each costs every insert and every change of state.
func dropped() []string {
	return []string{"river_job_args_index", "river_job_kind", "river_job_metadata_index", "river_job_prioritized_fetching_index"}
}

func lookAtIndexes(ctx context.Context, p *patient) ([]Finding, error) {
	rows, err := p.tx.Query(ctx, `SELECT c.relname::text, i.indisvalid AND i.indisready
		FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
		WHERE i.indrelid = to_regclass('sched.river_job')`)
	if err != nil {
		return nil, err
	}
	there := map[string]bool{}
	var name string
	var valid bool
	if _, err := pgx.ForEachRow(rows, []any{&name, &valid}, func() error { there[name] = valid; return nil }); err != nil {
		return nil, err
	}
	return judgeIndexes(there), nil
}

// judgeIndexes compares the indexes that are there, and whether they are valid,
// with those that should be.
func judgeIndexes(there map[string]bool) []Finding {
	expected := indexes()
	var found []Finding
	for _, name := range slices.Sorted(maps.Keys(expected)) {
		valid, exists := there[name]
		switch {
		case !exists:
			create := strings.Replace("CREATE "+expected[name], " INDEX ", " INDEX CONCURRENTLY ", 1)
			found = append(found, Finding{Level: Failed, Message: fmt.Sprintf("index %s is missing: claims or sweeps read the whole table", name), Advice: create})
		case !valid:
			found = append(found, Finding{
				Level: Failed, Message: fmt.Sprintf("index sched.%s is not valid: it is kept up but never used", name),
				Advice: "REINDEX INDEX CONCURRENTLY sched." + name,
			})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(there)) {
		if _, wanted := expected[name]; wanted {
			continue
		}
		if slices.Contains(dropped(), name) {
			found = append(found, Finding{
				Level: Warning, Message: fmt.Sprintf("River's index sched.%s is back: it costs every insert and every claim, and nothing here uses it", name),
				Advice: "DROP INDEX CONCURRENTLY sched." + name,
			})
		} else if !there[name] {
			found = append(found, Finding{
				Level: Warning, Message: fmt.Sprintf("index sched.%s is not valid: what is left of a build that failed", name),
				Advice: "DROP INDEX CONCURRENTLY sched." + name,
			})
		}
	}
	if len(found) == 0 {
		found = append(found, ok("all %d indexes of sched.river_job are there and valid", len(expected)))
	}
	return found
}

func lookAtAutovacuum(ctx context.Context, p *patient) ([]Finding, error) {
	var on, forTable bool
	var live, dead int64
	var last *time.Time
	err := p.tx.QueryRow(ctx, `SELECT current_setting('autovacuum')::bool AND current_setting('track_counts')::bool,
			NOT coalesce('autovacuum_enabled=false' = ANY (c.reloptions) OR 'autovacuum_enabled=off' = ANY (c.reloptions), false),
			coalesce(s.n_live_tup, 0), coalesce(s.n_dead_tup, 0), greatest(s.last_autovacuum, s.last_vacuum)
		FROM pg_class AS c LEFT JOIN pg_stat_all_tables AS s ON s.relid = c.oid
		WHERE c.oid = to_regclass('sched.river_job')`).Scan(&on, &forTable, &live, &dead, &last)
	if err != nil {
		return nil, err
	}
	const harm = "dead rows pile up, and claims get slower by the hour"
	switch {
	case !on:
		return []Finding{{Level: Failed, Message: "autovacuum is off: " + harm, Advice: "ALTER SYSTEM SET autovacuum = on; ALTER SYSTEM SET track_counts = on; SELECT pg_reload_conf()"}}, nil
	case !forTable:
		return []Finding{{Level: Failed, Message: "autovacuum is off for sched.river_job: " + harm, Advice: "ALTER TABLE sched.river_job RESET (autovacuum_enabled)"}}, nil
	case dead >= p.ManyDeadRows && dead > live:
		when := "never"
		if last != nil {
			when = last.UTC().Format(time.RFC3339)
		}
		return []Finding{{
			Level: Warning, Message: fmt.Sprintf("sched.river_job has %d dead rows to %d live ones; last vacuum: %s", dead, live, when),
			Advice: "see the check transactions for what keeps them; then VACUUM sched.river_job, and give autovacuum more (autovacuum_vacuum_cost_limit, autovacuum_vacuum_scale_factor)",
		}}, nil
	}
	return []Finding{ok("autovacuum is on; sched.river_job has %d live and %d dead rows", live, dead)}, nil
}

func lookAtTransactions(ctx context.Context, p *patient) ([]Finding, error) {
	// Only what pins rows of this database counts: its own transactions, prepared
	// ones, and a standby that sends its oldest snapshot.
	rows, err := p.tx.Query(ctx, `SELECT what, since FROM (
			SELECT format('session %s of %s (%s) on %s, %s', a.pid, a.usename, coalesce(nullif(a.application_name, ''), 'no application_name'),
				coalesce(host(a.client_addr), 'this machine'), coalesce(a.state, 'state hidden')), a.xact_start
			FROM pg_stat_activity AS a
			WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.backend_type = 'client backend'
			UNION ALL
			SELECT format('standby %s', coalesce(nullif(a.application_name, ''), host(a.client_addr))), a.xact_start
			FROM pg_stat_activity AS a WHERE a.backend_type = 'walsender' AND a.backend_xmin IS NOT NULL
			UNION ALL
			SELECT format('prepared transaction %L of %s', x.gid, x.owner), x.prepared FROM pg_prepared_xacts AS x WHERE x.database = current_database()
		) AS t (what, since)
		WHERE since < clock_timestamp() - make_interval(secs => $1) ORDER BY since LIMIT 5`, p.OldTransaction.Seconds())
	if err != nil {
		return nil, err
	}
	var found []Finding
	var what string
	var since time.Time
	_, err = pgx.ForEachRow(rows, []any{&what, &since}, func() error {
		found = append(found, Finding{
			Level:   Warning,
			Message: fmt.Sprintf("%s has had a transaction open since %s: no dead row is removed meanwhile, and claims get slower", what, since.UTC().Format(time.RFC3339)),
			Advice:  "end it (SELECT pg_terminate_backend(pid), or ROLLBACK PREPARED), and set idle_in_transaction_session_timeout for that role",
		})
		return nil
	})
	if err != nil {
		return found, err
	}
	holder, age, err := oldestXmin(ctx, p)
	if err == nil && age >= p.OldXmin {
		found = append(found, Finding{
			Level:   Warning,
			Message: fmt.Sprintf("%s keeps the rows of the last %d transactions: no dead row of theirs is removed meanwhile, and claims get slower", holder, age),
			Advice:  "end it (SELECT pg_terminate_backend(pid), ROLLBACK PREPARED, or SELECT pg_drop_replication_slot(name) for one that nobody uses any more)",
		})
	}
	if len(found) == 0 && err == nil {
		found = append(found, ok("no transaction is older than %s; the oldest that counts is %d transactions old", p.OldTransaction, age))
	}
	return found, err
}

// oldestXmin is who keeps the oldest dead rows of this database, and for how many
// transactions. Of other login roles' sessions only some may see that.
func oldestXmin(ctx context.Context, p *patient) (holder string, age int64, err error) {
	err = p.tx.QueryRow(ctx, `SELECT h.who, h.age FROM (
			SELECT format('session %s of %s (%s)', a.pid, a.usename, coalesce(nullif(a.application_name, ''), 'no application_name')), age(a.backend_xmin)
			FROM pg_stat_activity AS a
			WHERE a.backend_xmin IS NOT NULL AND a.pid <> pg_backend_pid() AND (a.datname = current_database() OR a.backend_type = 'walsender')
			UNION ALL
			SELECT format('replication slot %s (%s)', s.slot_name, CASE WHEN s.active THEN 'in use' ELSE 'nobody uses it' END), age(s.xmin)
			FROM pg_replication_slots AS s WHERE s.xmin IS NOT NULL
			UNION ALL
			SELECT format('prepared transaction %L', x.gid), age(x.transaction) FROM pg_prepared_xacts AS x WHERE x.database = current_database()
			UNION ALL
			SELECT '', 0
		) AS h (who, age) ORDER BY h.age DESC LIMIT 1`).Scan(&holder, &age)
	return holder, age, err
}
