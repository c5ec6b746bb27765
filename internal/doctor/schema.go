package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/sched-sidecar/sched/migrations"
)

// riverVersion is the version of River's tables that this release works with.
const riverVersion = 8

const noSchema = "there is no schema sched in this database"

func lookAtSchema(ctx context.Context, p *patient) ([]Finding, error) {
	var exists bool
	if err := p.tx.QueryRow(ctx, `SELECT to_regnamespace('sched') IS NOT NULL`).Scan(&exists); err != nil {
		return nil, err
	}
	if !exists {
		return []Finding{{Level: Failed, Message: noSchema, Advice: "run sched migrate up, or check that --dsn names the right database"}}, nil
	}
	found := []Finding{}
	if finding := contractFinding(ctx, p); finding != nil {
		return append(found, *finding), nil
	}
	info, err := migrations.Version(ctx, p.DSN)
	if err != nil {
		return nil, err
	}
	found = append(found, judgeMigrations(info))
	var river int
	err = p.tx.QueryRow(ctx, `SELECT coalesce(max(version), 0)::int FROM sched.river_migration WHERE line = 'main'`).Scan(&river)
	if err != nil {
		return found, err
	}
	if river != riverVersion {
		found = append(found, Finding{
			Level: Failed, Message: fmt.Sprintf("River's tables are at version %d, this release works with %d", river, riverVersion),
			Advice: "somebody ran River's own migrations in this schema: don't; use a release of sched that knows that version",
		})
	}
	return found, nil
}

// contractFinding says why programs of this release refuse this schema; nil when
// they don't. It asks in a savepoint, since the answer may be an error.
func contractFinding(ctx context.Context, p *patient) *Finding {
	err := pgx.BeginFunc(ctx, p.tx, func(tx pgx.Tx) error { return migrations.CheckContract(ctx, tx) })
	if err == nil {
		return nil
	}
	message, advice, _ := strings.Cut(err.Error(), ": ")
	if errors.Is(err, migrations.ErrNoAccess) {
		return &Finding{Level: Failed, Message: err.Error(), Advice: "grant this login role the role for its task, e.g. GRANT sched_sidecar TO a sidecar's"}
	}
	return &Finding{Level: Failed, Message: message, Advice: advice}
}

// judgeMigrations compares the schema with what this program has.
func judgeMigrations(info migrations.VersionInfo) Finding {
	switch {
	case info.Current < info.Latest:
		return Finding{
			Level: Warning, Message: fmt.Sprintf("the schema is at migration %d, this program has migrations up to %d", info.Current, info.Latest),
			Advice: "run sched migrate up: the schema first, then the sidecars",
		}
	case info.Current > info.Latest:
		return Finding{
			Level: Warning, Message: fmt.Sprintf("the schema is at migration %d, newer than this program, which has migrations up to %d", info.Current, info.Latest),
			Advice: "an upgrade is under way: upgrade this program and the sidecars too",
		}
	default:
		return ok("the schema is at migration %d, contract %d, River's tables at %d", info.Current, info.Contract, riverVersion)
	}
}

func lookAtRights(ctx context.Context, p *patient) ([]Finding, error) {
	var owner, role string
	var produces, audits, works, owns, open bool
	err := p.tx.QueryRow(ctx, `SELECT pg_get_userbyid(n.nspowner), session_user,
			has_schema_privilege(n.oid, 'USAGE') AND (
				SELECT bool_and(has_function_privilege(f.oid, 'EXECUTE')) FROM pg_proc AS f
				WHERE f.pronamespace = n.oid AND f.proname IN ('enqueue', 'enqueue_many', 'complete', 'cancel', 'retry')),
			has_schema_privilege(n.oid, 'USAGE') AND (
				SELECT bool_and(has_table_privilege(v.oid, 'SELECT')) FROM pg_class AS v
				WHERE v.relnamespace = n.oid AND v.relname IN ('task', 'attempt', 'batch')),
			has_schema_privilege(n.oid, 'USAGE') AND (
				SELECT bool_and(has_table_privilege(t.oid, 'SELECT') AND has_table_privilege(t.oid, 'INSERT')
					AND has_table_privilege(t.oid, 'UPDATE') AND has_table_privilege(t.oid, 'DELETE'))
				FROM pg_class AS t WHERE t.relnamespace = n.oid AND t.relname IN ('river_job', 'river_leader', 'river_queue', 'worker', 'attempt_log')),
			pg_has_role(n.nspowner, 'USAGE'),
			has_schema_privilege('public', n.oid, 'USAGE')
		FROM pg_namespace AS n WHERE n.nspname = 'sched'`).Scan(&owner, &role, &produces, &audits, &works, &owns, &open)
	if err != nil {
		return nil, err
	}
	found := []Finding{judgeRights(role, owner, map[string]bool{
		"enqueue and control tasks": produces, "read the views": audits, "work tasks as a sidecar": works, "migrate": owns,
	})}
	if open {
		found = append(found, Finding{Level: Warning, Message: "every login role of this database may use the schema sched", Advice: "REVOKE ALL ON SCHEMA sched FROM PUBLIC"})
	}
	strays, err := strayObjects(ctx, p)
	if err != nil {
		return found, err
	}
	if len(strays) > 0 {
		found = append(found, Finding{
			Level: Warning, Message: fmt.Sprintf("not everything in the schema belongs to %s: %s", owner, strings.Join(strays, ", ")),
			Advice: fmt.Sprintf("if it is this project's, run sched migrate up as a role that owns it or as a superuser, or ALTER … OWNER TO %s; if not, move it to another schema", owner),
		})
	}
	return found, nil
}

// judgeRights says what a login role may do here. That some may do little is the
// point of roles; one that may do nothing is a mistake.
func judgeRights(role, owner string, may map[string]bool) Finding {
	var yes, no []string
	for _, what := range []string{"enqueue and control tasks", "read the views", "work tasks as a sidecar", "migrate"} {
		if may[what] {
			yes = append(yes, what)
		} else {
			no = append(no, what)
		}
	}
	if len(yes) == 0 {
		return Finding{
			Level: Failed, Message: fmt.Sprintf("role %s may do nothing in the schema sched, which belongs to %s", role, owner),
			Advice: fmt.Sprintf("GRANT sched_producer, sched_sidecar or sched_auditor TO %s, as its task is", role),
		}
	}
	text := fmt.Sprintf("the schema belongs to %s; role %s may %s", owner, role, strings.Join(yes, ", "))
	if len(no) > 0 {
		text += "; not " + strings.Join(no, ", ")
	}
	return ok("%s", text)
}

// strayObjects names up to five things in the schema that don't belong to its owner.
func strayObjects(ctx context.Context, p *patient) ([]string, error) {
	rows, err := p.tx.Query(ctx, `WITH ns AS (SELECT oid, nspowner FROM pg_namespace WHERE nspname = 'sched')
		SELECT o.name || ' (' || pg_get_userbyid(o.owner) || ')'
		FROM ns, LATERAL (
			SELECT c.relname::text, c.relowner FROM pg_class AS c WHERE c.relnamespace = ns.oid AND c.relkind IN ('r', 'p', 'v', 'm', 'S')
			UNION ALL
			SELECT f.proname || '()', f.proowner FROM pg_proc AS f WHERE f.pronamespace = ns.oid
		) AS o (name, owner)
		WHERE o.owner <> ns.nspowner ORDER BY o.name LIMIT 5`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
