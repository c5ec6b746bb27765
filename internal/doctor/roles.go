package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// roleRights is one of the four roles and what it may do in the schema.
type roleRights struct {
	name   string
	exists bool
	// What it lacks of what it is for, and what it has that it isn't for.
	lacks, extra []string
}

// rolesSQL asks for each role what of its rights is missing, and what it has too much
// of: a producer has no table, an auditor changes nothing. Of the tables those are asked
// for that a sidecar can't work without.
const rolesSQL = `WITH ns AS (SELECT oid FROM pg_namespace WHERE nspname = 'sched'),
	role AS (
		SELECT w.name, w.ord, r.oid FROM unnest(ARRAY['sched_owner', 'sched_sidecar', 'sched_producer', 'sched_auditor']) WITH ORDINALITY AS w (name, ord)
		LEFT JOIN pg_roles AS r ON r.rolname = w.name
	),
	object (role, bare, text, has) AS (
		SELECT r.name, f.proname, f.proname || '()', has_function_privilege(r.oid, f.oid, 'EXECUTE')
		FROM role AS r, pg_proc AS f JOIN ns ON ns.oid = f.pronamespace
		WHERE r.name = 'sched_producer' AND f.proname IN ('enqueue', 'enqueue_many', 'complete', 'cancel', 'retry')
		UNION ALL
		SELECT r.name, c.relname, c.relname, has_table_privilege(r.oid, c.oid, 'SELECT')
		FROM role AS r, pg_class AS c JOIN ns ON ns.oid = c.relnamespace
		WHERE r.name = 'sched_auditor' AND c.relname IN ('task', 'attempt', 'batch', 'decisions', 'operator_actions')
		UNION ALL
		SELECT r.name, c.relname, c.relname, has_table_privilege(r.oid, c.oid, 'SELECT') AND has_table_privilege(r.oid, c.oid, 'INSERT')
			AND has_table_privilege(r.oid, c.oid, 'UPDATE') AND has_table_privilege(r.oid, c.oid, 'DELETE')
		FROM role AS r, pg_class AS c JOIN ns ON ns.oid = c.relnamespace
		WHERE r.name = 'sched_sidecar' AND c.relname IN ('river_job', 'river_leader', 'river_queue', 'worker', 'attempt_log', 'queue', 'assignment')
	),
	surplus (role, text) AS (
		SELECT r.name, c.relname FROM role AS r, pg_class AS c JOIN ns ON ns.oid = c.relnamespace
		WHERE r.oid IS NOT NULL AND c.relkind IN ('r', 'p', 'v') AND CASE r.name
			WHEN 'sched_producer' THEN has_table_privilege(r.oid, c.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')
			WHEN 'sched_auditor' THEN has_table_privilege(r.oid, c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')
			ELSE false END
	)
SELECT r.name, r.oid IS NOT NULL,
	coalesce(ARRAY(SELECT 'the schema' WHERE r.oid IS NOT NULL AND NOT has_schema_privilege(r.oid, (SELECT oid FROM ns), 'USAGE')
		UNION ALL SELECT o.text FROM object AS o WHERE o.role = r.name AND r.oid IS NOT NULL AND NOT o.has), '{}'),
	ARRAY(SELECT s.text FROM surplus AS s WHERE s.role = r.name ORDER BY s.text LIMIT 5)
FROM role AS r ORDER BY r.ord`

func lookAtRoles(ctx context.Context, p *patient) ([]Finding, error) {
	rows, err := p.tx.Query(ctx, rolesSQL)
	if err != nil {
		return nil, err
	}
	roles, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r roleRights, err error) {
		err = row.Scan(&r.name, &r.exists, &r.lacks, &r.extra)
		return r, err
	})
	if err != nil {
		return nil, err
	}
	return judgeRoles(roles), nil
}

func judgeRoles(roles []roleRights) []Finding {
	var found []Finding
	var there, missing []string
	for _, r := range roles {
		if !r.exists {
			missing = append(missing, r.name)
			continue
		}
		there = append(there, r.name)
		if len(r.lacks) > 0 {
			found = append(found, Finding{
				Level: Failed, Message: fmt.Sprintf("role %s lacks rights that it needs: %s", r.name, strings.Join(r.lacks, ", ")),
				Advice: "run sched migrate up, which gives the roles their rights again; after a restore without privileges, too",
			})
		}
		if len(r.extra) > 0 {
			found = append(found, Finding{
				Level: Warning, Message: fmt.Sprintf("role %s may do more than it is for: %s", r.name, strings.Join(r.extra, ", ")),
				Advice: "run sched migrate up, which takes that away; a login role that needs it should get it itself",
			})
		}
	}
	switch {
	case len(there) == 0:
		return []Finding{ok("there is none of the roles sched_…: made with --no-roles, or with other names")}
	case len(missing) > 0:
		found = append(found, Finding{
			Level: Warning, Message: "there is no role " + strings.Join(missing, ", "),
			Advice: "run sched migrate up as a role that may create roles, or have an administrator create it and run it again",
		})
	case len(found) == 0:
		found = append(found, ok("roles %s have the rights that they are for, and no others", strings.Join(there, ", ")))
	}
	return found
}
