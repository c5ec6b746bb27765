package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/sched-sidecar/sched/internal/pooler"
)

const (
	// lockKey is the advisory lock of this package: "sched" in ASCII, and 1.
	lockKey = 0x7363686564_01
	// lockPoll is how often a second migration asks for the lock.
	lockPoll = 100 * time.Millisecond
	// connectTimeout applies unless the connection string has one.
	connectTimeout = 10 * time.Second
	// unlockTimeout bounds the goodbye to a server that stopped answering.
	unlockTimeout = 5 * time.Second
)

// settleSession makes a connection independent of what its role or database has
// configured. The search path makes a statement that isn't schema-qualified fail.
const settleSession = `SET search_path = pg_catalog, pg_temp;
SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET idle_session_timeout = 0;
SET TimeZone = 'UTC';
SET client_min_messages = warning`

const schemaComment = "Job queue: its tables, the SQL API (sched.enqueue and others) and the views task, attempt and batch."

// session is one run of this package on one database.
type session struct {
	pool *pgxpool.Config
	lock *pgx.Conn // holds the lock of a migration; runs what isn't goose's
	db   *sql.DB   // goose's
	opts Options

	// What goose's next connection is set up with.
	role        string        // acts as this role; empty: as the login role
	lockTimeout time.Duration // 0: waits for ever
}

// withSession runs fn with the migration lock of the database held.
func withSession(ctx context.Context, dsn string, opts Options, fn func(*session) error) error {
	return connected(ctx, dsn, opts, func(s *session) error {
		if err := s.acquire(ctx); err != nil {
			return err
		}
		// Closing the connection would release the lock too; saying so makes
		// it certain before the next migration asks.
		defer func() {
			done, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTimeout)
			defer cancel()
			_, _ = s.lock.Exec(done, "SELECT pg_advisory_unlock($1)", int64(lockKey))
		}()
		return fn(s)
	})
}

// withReader runs fn without the lock, and tells it whether the schema is there.
func withReader(ctx context.Context, dsn string, fn func(s *session, migrated bool) error) error {
	return connected(ctx, dsn, Options{NoRoles: true}, func(s *session) error {
		migrated, err := s.migrated(ctx)
		if err != nil {
			return err
		}
		return fn(s, migrated)
	})
}

func connected(ctx context.Context, dsn string, opts Options, fn func(*session) error) error {
	opts = opts.withDefaults()
	if err := opts.Roles.validate(); err != nil {
		return err
	}
	// A DSN for a pool is welcome too: pgxpool takes its own settings out.
	pool, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if pool.ConnConfig.RuntimeParams["application_name"] == "" {
		pool.ConnConfig.RuntimeParams["application_name"] = "sched migrate"
	}
	if pool.ConnConfig.ConnectTimeout == 0 {
		pool.ConnConfig.ConnectTimeout = connectTimeout
	}
	s := &session{pool: pool, opts: opts}
	if s.lock, err = pgx.ConnectConfig(ctx, pool.ConnConfig); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	defer func() {
		done, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTimeout)
		defer cancel()
		_ = s.lock.Close(done)
	}()
	if err := s.refusePooler(ctx); err != nil {
		return err
	}
	if err := settle(ctx, s.lock); err != nil {
		return err
	}
	s.db = stdlib.OpenDB(*pool.ConnConfig, stdlib.OptionAfterConnect(s.settleGoose))
	s.db.SetMaxIdleConns(0)
	defer func() { _ = s.db.Close() }()
	return fn(s)
}

// refusePooler finds out whether the session is ours alone. In one that is shared
// the lock would lock nothing, and the settings would stay behind: a search path
// that others don't expect, say.
func (s *session) refusePooler(ctx context.Context) error {
	pooled, err := pooler.Between(ctx, s.lock)
	if err != nil || !pooled {
		return err
	}
	other, err := pgx.ConnectConfig(ctx, s.pool.ConnConfig)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	defer func() {
		done, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTimeout)
		defer cancel()
		_ = other.Close(done)
	}()
	shared, err := pooler.Shared(ctx, s.lock, other)
	if err != nil || !shared {
		return err
	}
	return fmt.Errorf("migrate: %w (%s:%d): give migrations the address of Postgres itself", ErrPooled, s.pool.ConnConfig.Host, s.pool.ConnConfig.Port)
}

func settle(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, settleSession, pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("migrate: set up the connection: %w", err)
	}
	return nil
}

// settleGoose sets up a connection of goose's.
func (s *session) settleGoose(ctx context.Context, conn *pgx.Conn) error {
	if err := settle(ctx, conn); err != nil {
		return err
	}
	statements := fmt.Sprintf("SET lock_timeout = %d", s.lockTimeout.Milliseconds())
	if s.role != "" {
		statements += "; SET ROLE " + quote(s.role)
	}
	if _, err := conn.Exec(ctx, statements, pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("migrate: set up the connection: %w", err)
	}
	return nil
}

// actAsOwner makes what an upgrade adds belong to the owner role from the start:
// functions that run with the owner's rights call it before the grants are made.
func (s *session) actAsOwner(ctx context.Context) error {
	var owner string
	err := s.lock.QueryRow(ctx, "SELECT pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname = $1", schemaName).Scan(&owner)
	if err != nil {
		return fmt.Errorf("read the owner of schema %s: %w", schemaName, err)
	}
	if owner == s.opts.Roles.Owner {
		s.role = owner
	}
	return nil
}

// acquire takes the migration lock of the database, waiting for another
// migration as long as ctx allows.
func (s *session) acquire(ctx context.Context) error {
	ticker := time.NewTicker(lockPoll)
	defer ticker.Stop()
	for waiting := false; ; waiting = true {
		var got bool
		if err := s.lock.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", int64(lockKey)).Scan(&got); err != nil {
			return fmt.Errorf("take the migration lock: %w", err)
		}
		if got {
			return nil
		}
		if !waiting {
			s.opts.Logger.InfoContext(ctx, "another migration of this database is running: waiting for it")
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for another migration of this database to end: %w", context.Cause(ctx))
		}
	}
}

// provider is goose with the migrations of this package. It keeps no globals.
func (s *session) provider() (*goose.Provider, error) {
	provider, err := goose.NewProvider(goose.DialectPostgres, s.db, files,
		goose.WithTableName(versionTable),
		goose.WithGoMigrations(s.riverMigration()),
		goose.WithDisableGlobalRegistry(true),
		goose.WithLogger(goose.NopLogger()),
	)
	if err != nil {
		return nil, fmt.Errorf("load migrations: %w", err)
	}
	return provider, nil
}

// migrated says whether these migrations have begun in the database.
func (s *session) migrated(ctx context.Context) (bool, error) {
	var exists bool
	err := s.lock.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", versionTable).Scan(&exists)
	if err != nil {
		return false, fmt.Errorf("look for %s: %w", versionTable, err)
	}
	return exists, nil
}

// createSchema makes the schema, or accepts an empty one: an administrator may
// have made it for a login role that can't.
func (s *session) createSchema(ctx context.Context) error {
	migrated, err := s.migrated(ctx)
	if err != nil || migrated {
		return err
	}
	var exists, filled bool
	err = s.lock.QueryRow(ctx, `SELECT
		EXISTS (SELECT FROM pg_namespace WHERE nspname = $1),
		EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1)`,
		schemaName).Scan(&exists, &filled)
	if err != nil {
		return fmt.Errorf("look for schema %s: %w", schemaName, err)
	}
	if filled {
		return fmt.Errorf("%w: it has tables but not %s: use another database, or rename that schema", ErrForeignSchema, versionTable)
	}
	if exists {
		return nil
	}
	if _, err := s.lock.Exec(ctx, "CREATE SCHEMA "+schemaName); err != nil {
		if config := s.pool.ConnConfig; hasCode(err, codeInsufficientPrivilege) {
			return fmt.Errorf("create schema %s: %w: have an administrator run `GRANT CREATE ON DATABASE %s TO %s`, or `CREATE SCHEMA %s AUTHORIZATION %s`",
				schemaName, err, quote(config.Database), quote(config.User), schemaName, quote(config.User))
		}
		return fmt.Errorf("create schema %s: %w", schemaName, err)
	}
	if _, err := s.lock.Exec(ctx, "COMMENT ON SCHEMA "+schemaName+" IS '"+schemaComment+"'"); err != nil {
		return fmt.Errorf("comment on schema %s: %w", schemaName, err)
	}
	return nil
}

// dropSchema removes goose's table and the schema. What the migrations did not
// make is not dropped on the way.
func (s *session) dropSchema(ctx context.Context) error {
	if _, err := s.lock.Exec(ctx, "DROP TABLE "+versionTable); err != nil {
		return fmt.Errorf("drop %s: %w", versionTable, err)
	}
	_, err := s.lock.Exec(ctx, "DROP SCHEMA "+schemaName)
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == codeDependentObjects {
		return fmt.Errorf("drop schema %s: %w: %s: drop or move it, then run `DROP SCHEMA %s`", schemaName, ErrLeftovers, pgErr.Detail, schemaName)
	}
	if err != nil {
		return fmt.Errorf("drop schema %s: %w", schemaName, err)
	}
	return nil
}

// logged reports what goose did, of a run that failed too.
func (s *session) logged(results []*goose.MigrationResult, err error) error {
	var partial *goose.PartialError
	if errors.As(err, &partial) {
		results = partial.Applied
	}
	for _, r := range results {
		s.opts.Logger.Info("migrated", "migration", sourceName(r.Source), "direction", r.Direction, "duration", r.Duration)
	}
	return err
}

// sourceName is a migration's file name; River's, which is Go, gets one like it.
func sourceName(source *goose.Source) string {
	if source.Path == "" {
		return strings.Repeat("0", 5-len(strconv.FormatInt(source.Version, 10))) + strconv.FormatInt(source.Version, 10) + "_river"
	}
	return strings.TrimSuffix(path.Base(source.Path), ".sql")
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

func hasCode(err error, codes ...string) bool {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return false
	}
	for _, code := range codes {
		if pgErr.Code == code {
			return true
		}
	}
	return false
}
