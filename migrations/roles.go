package migrations

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// roleTries bounds how often a role statement is repeated when a migration of
// another database of the cluster changes the same role at the same moment.
const roleTries = 5

// createRoles makes the roles that don't exist and sees to it that this login
// role can act as the owner. It runs before anything else is changed.
func (s *session) createRoles(ctx context.Context) error {
	missing, err := s.missingRoles(ctx)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		var may bool
		err := s.lock.QueryRow(ctx, "SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user").Scan(&may)
		if err != nil {
			return fmt.Errorf("read the rights of this login role: %w", err)
		}
		if !may {
			return s.rolesRefused("it may not create roles", missing)
		}
	}
	for _, name := range missing {
		if err := s.execShared(ctx, "CREATE ROLE "+quote(name)+" NOLOGIN"); err != nil {
			return fmt.Errorf("create role %s: %w", name, err)
		}
	}
	return s.joinOwner(ctx)
}

// joinOwner makes this login role a member of the owner role unless it has that
// role's rights already.
func (s *session) joinOwner(ctx context.Context) error {
	member, err := s.ownerMember(ctx)
	if err != nil || member {
		return err
	}
	err = s.execShared(ctx, "GRANT "+quote(s.opts.Roles.Owner)+" TO CURRENT_USER")
	if err != nil && !hasCode(err, codeInsufficientPrivilege) {
		return fmt.Errorf("join role %s: %w", s.opts.Roles.Owner, err)
	}
	if member, err = s.ownerMember(ctx); err != nil {
		return err
	}
	if !member {
		return s.rolesRefused("it is no member of "+s.opts.Roles.Owner+" that inherits its rights", nil)
	}
	return nil
}

func (s *session) ownerMember(ctx context.Context) (bool, error) {
	// From version 16 on, giving objects to a role needs the SET option of the
	// membership as well.
	var member bool
	err := s.lock.QueryRow(ctx, `SELECT pg_has_role(current_user, $1, 'USAGE')
		AND CASE WHEN current_setting('server_version_num')::int >= 160000 THEN pg_has_role(current_user, $1, 'SET') ELSE true END`,
		s.opts.Roles.Owner).Scan(&member)
	if err != nil {
		return false, fmt.Errorf("read the membership in role %s: %w", s.opts.Roles.Owner, err)
	}
	return member, nil
}

func (s *session) missingRoles(ctx context.Context) ([]string, error) {
	rows, err := s.lock.Query(ctx, `SELECT name FROM unnest($1::text[]) WITH ORDINALITY AS r (name, ord)
		WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) ORDER BY ord`, s.opts.Roles.all())
	if err != nil {
		return nil, fmt.Errorf("look for roles: %w", err)
	}
	missing, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("look for roles: %w", err)
	}
	return missing, nil
}

// rolesRefused is the error that tells how to get on without the right to
// create roles.
func (s *session) rolesRefused(why string, missing []string) error {
	statements := make([]string, 0, len(missing)+1)
	for _, name := range missing {
		statements = append(statements, "CREATE ROLE "+quote(name)+" NOLOGIN;")
	}
	statements = append(statements, "GRANT "+quote(s.opts.Roles.Owner)+" TO "+quote(s.pool.ConnConfig.User)+";")
	return fmt.Errorf("%w with login role %s: %s: pass --no-roles to do without them, or have an administrator run:\n%s",
		ErrRolesRefused, s.pool.ConnConfig.User, why, strings.Join(statements, "\n"))
}

// execShared runs a statement on roles, which belong to the whole cluster: a
// migration of another database may be doing the same. That it was done already
// is as good as doing it.
func (s *session) execShared(ctx context.Context, statement string) error {
	var err error
	for range roleTries {
		_, err = s.lock.Exec(ctx, statement)
		switch {
		case err == nil, hasCode(err, codeDuplicateObject, codeUniqueViolation):
			return nil
		case !hasCode(err, codeConcurrentTupleChanges):
			return err
		}
	}
	return err
}

// grant hands all objects to the owner role and gives each other role its
// rights, and nothing else. It works from the catalog, so that it covers what
// later migrations add, and mends what a run without roles left out.
func (s *session) grant(ctx context.Context) error {
	err := pgx.BeginFunc(ctx, s.lock, func(tx pgx.Tx) error {
		// Ownership first: the grants look at what the owner has.
		for _, query := range []string{ownershipSQL, grantsSQL} {
			rows, err := tx.Query(ctx, query, pgx.NamedArgs{
				"owner": s.opts.Roles.Owner, "sidecar": s.opts.Roles.Sidecar,
				"producer": s.opts.Roles.Producer, "auditor": s.opts.Roles.Auditor,
				"api": producerFunctions(), "audit": auditorFunctions(), "read_only": readOnlyTables(),
			})
			if err != nil {
				return err
			}
			statements, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, strings.Join(statements, ";\n"), pgx.QueryExecModeSimpleProtocol); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("set up ownership and grants: %w", err)
	}
	return nil
}

// grantIfOwned is grant where the owner role has the schema: what a migration that was
// taken back has made again is this login's.
func (s *session) grantIfOwned(ctx context.Context) error {
	var owned bool
	err := s.lock.QueryRow(ctx, "SELECT pg_get_userbyid(nspowner) = $1 FROM pg_namespace WHERE nspname = $2", s.opts.Roles.Owner, schemaName).Scan(&owned)
	if err != nil {
		return fmt.Errorf("read who has the schema: %w", err)
	}
	missing, err := s.missingRoles(ctx)
	if err != nil {
		return err
	}
	if s.opts.NoRoles || !owned || len(missing) > 0 {
		return nil
	}
	return s.grant(ctx)
}

// producerFunctions are the functions of the SQL API that an application calls.
func producerFunctions() []string {
	return []string{"cancel", "complete", "contract_version", "enqueue", "enqueue_many", "pressure", "pressure_of_tasks", "retry"}
}

// auditorFunctions are those that tell and change nothing.
func auditorFunctions() []string {
	return []string{"explain", "pressure"}
}

// readOnlyTables are those that a sidecar has no business writing to.
func readOnlyTables() []string {
	return []string{"contract", "kind", "schedule", "setting", "goose_db_version", "river_migration", "task_archive"}
}

// ownershipSQL lists the statements that give to the owner role what this login
// role or the schema's former owner has. What others put into the schema stays
// theirs.
const ownershipSQL = `
WITH ns AS (SELECT oid, nspowner FROM pg_namespace WHERE nspname = 'sched'),
given AS (
	SELECT oid FROM pg_roles WHERE rolname = current_user UNION SELECT nspowner FROM ns
	EXCEPT SELECT oid FROM pg_roles WHERE rolname = @owner
),
object (kind, name, owner) AS (
	SELECT 'SCHEMA', 'sched', nspowner FROM ns
	UNION ALL
	SELECT CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'S' THEN 'SEQUENCE' WHEN 'c' THEN 'TYPE' ELSE 'TABLE' END, c.oid::regclass::text, c.relowner
	FROM pg_class c JOIN ns ON ns.oid = c.relnamespace
	WHERE c.relkind IN ('r', 'p', 'v', 'c')
		-- A sequence of a column goes with its table.
		OR (c.relkind = 'S' AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype IN ('a', 'i')))
	UNION ALL
	SELECT 'FUNCTION', p.oid::regprocedure::text, p.proowner FROM pg_proc p JOIN ns ON ns.oid = p.pronamespace
	UNION ALL
	SELECT 'TYPE', t.oid::regtype::text, t.typowner FROM pg_type t JOIN ns ON ns.oid = t.typnamespace WHERE t.typtype = 'e'
)
SELECT format('ALTER %s %s OWNER TO %I', o.kind, o.name, @owner::text)
FROM object o JOIN given g ON g.oid = o.owner
ORDER BY o.kind = 'SCHEMA' DESC, o.kind, o.name`

// grantsSQL lists the statements that take all rights in the schema from
// everybody and the three roles, and give the roles theirs.
const grantsSQL = `
WITH ns AS (SELECT oid, nspowner FROM pg_namespace WHERE nspname = 'sched'),
object (kind, name, bare) AS (
	SELECT CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'S' THEN 'SEQUENCE' ELSE CASE WHEN c.relispartition THEN 'PARTITION' ELSE 'TABLE' END END, c.oid::regclass::text, c.relname
	FROM pg_class c JOIN ns ON ns.oid = c.relnamespace AND ns.nspowner = c.relowner WHERE c.relkind IN ('r', 'p', 'v', 'S')
	UNION ALL
	SELECT 'FUNCTION', p.oid::regprocedure::text, p.proname FROM pg_proc p JOIN ns ON ns.oid = p.pronamespace AND ns.nspowner = p.proowner
	UNION ALL
	SELECT 'TYPE', t.oid::regtype::text, t.typname FROM pg_type t JOIN ns ON ns.oid = t.typnamespace AND ns.nspowner = t.typowner
	WHERE t.typtype = 'e' OR (t.typtype = 'c' AND EXISTS (SELECT FROM pg_class c WHERE c.oid = t.typrelid AND c.relkind = 'c'))
),
statement (step, text) AS (
	SELECT 1, format('REVOKE ALL ON SCHEMA sched FROM PUBLIC, %I, %I, %I', @sidecar::text, @producer::text, @auditor::text)
	UNION ALL
	SELECT 1, format('REVOKE ALL ON %s %s FROM PUBLIC, %I, %I, %I',
		CASE WHEN kind IN ('VIEW', 'PARTITION') THEN 'TABLE' ELSE kind END, name, @sidecar::text, @producer::text, @auditor::text)
	FROM object
	UNION ALL
	SELECT 2, format('GRANT USAGE ON SCHEMA sched TO %I, %I, %I', @sidecar::text, @producer::text, @auditor::text)
	UNION ALL
	SELECT 2, CASE kind
		WHEN 'TABLE' THEN format('GRANT SELECT%s ON TABLE %s TO %I',
			CASE WHEN bare::text = ANY (@read_only::text[]) THEN '' WHEN bare = 'operator_action' THEN ', DELETE' ELSE ', INSERT, UPDATE, DELETE' END, name, @sidecar::text)
		WHEN 'VIEW' THEN format('GRANT SELECT ON TABLE %s TO %I, %I', name, @sidecar::text, @auditor::text)
		WHEN 'SEQUENCE' THEN format('GRANT USAGE, SELECT ON SEQUENCE %s TO %I', name, @sidecar::text)
		WHEN 'FUNCTION' THEN format('GRANT EXECUTE ON FUNCTION %s TO %I', name, @sidecar::text)
			|| CASE WHEN bare::text = ANY (@api::text[]) THEN format(', %I', @producer::text) ELSE '' END
			|| CASE WHEN bare::text = ANY (@audit::text[]) THEN format(', %I', @auditor::text) ELSE '' END
		-- The type of status: needed to keep a copy of a view in a table of one's own.
		WHEN 'TYPE' THEN CASE WHEN bare = 'river_job_state' THEN format('GRANT USAGE ON TYPE %s TO %I, %I', name, @sidecar::text, @auditor::text) END
	END
	FROM object
)
SELECT text FROM statement WHERE text IS NOT NULL ORDER BY step, text`

// revoke takes the roles' rights on the schema itself; those on what is in it go
// with it.
func (s *session) revoke(ctx context.Context) error {
	missing, err := s.missingRoles(ctx)
	if err != nil || len(missing) > 0 {
		return err
	}
	r := s.opts.Roles
	_, err = s.lock.Exec(ctx, fmt.Sprintf("REVOKE ALL ON SCHEMA %s FROM %s, %s, %s", schemaName, quote(r.Sidecar), quote(r.Producer), quote(r.Auditor)))
	if err != nil {
		return fmt.Errorf("revoke the rights on schema %s: %w", schemaName, err)
	}
	return nil
}

// dropRoles drops the roles. One that something outside the schema depends on
// stays, and is in the error.
func (s *session) dropRoles(ctx context.Context) error {
	var failed []error
	for _, name := range s.opts.Roles.all() {
		_, err := s.lock.Exec(ctx, "DROP ROLE IF EXISTS "+quote(name))
		var pgErr *pgconn.PgError
		switch {
		case errors.As(err, &pgErr) && pgErr.Code == codeDependentObjects:
			failed = append(failed, fmt.Errorf("drop role %s: %w: %s: it stays until that is gone", name, ErrLeftovers, pgErr.Detail))
		case err != nil:
			failed = append(failed, fmt.Errorf("drop role %s: %w", name, err))
		}
	}
	return errors.Join(failed...)
}
