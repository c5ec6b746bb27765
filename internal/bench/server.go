package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sched-sidecar/sched/internal/devpg"
)

const (
	setupTimeout = 3 * time.Minute // to create, migrate, fill or drop a database
	queryTimeout = 30 * time.Second
)

// embeddedSettings are those of the server that is started when no DSN is given:
// durable, and with WAL enough that no checkpoint is forced within a round. All
// contenders get the same.
func embeddedSettings() map[string]string {
	return map[string]string{
		"shared_buffers": "256MB",
		"max_wal_size":   "4GB",
		// Loaded but silent: only databases that ask for it are tracked.
		"shared_preload_libraries":  "pg_stat_statements",
		"pg_stat_statements.track":  "none",
		"track_activity_query_size": "4096",
	}
}

// server is the Postgres server that a run measures on.
type server struct {
	embedded   *devpg.Server // nil: somebody else's
	dsn        string        // of the maintenance database
	admin      *pgxpool.Pool
	postmaster int  // 0: not on this machine
	statements bool // pg_stat_statements counts here
}

// openServer connects to dsn, or starts a server when it is empty.
func openServer(ctx context.Context, dsn string, logger *slog.Logger) (*server, error) {
	s := &server{dsn: dsn}
	if dsn == "" {
		embedded, err := startEmbedded(ctx, logger)
		if err != nil {
			return nil, err
		}
		s.embedded, s.dsn = embedded, embedded.DSN()
	}
	if err := s.connect(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// startEmbedded starts a server, without pg_stat_statements where Postgres comes
// without its contributed modules.
func startEmbedded(ctx context.Context, logger *slog.Logger) (*devpg.Server, error) {
	settings := embeddedSettings()
	embedded, err := devpg.Start(ctx, devpg.Options{Settings: settings, Logger: logger})
	if err == nil || !strings.Contains(err.Error(), "pg_stat_statements") {
		return embedded, err
	}
	delete(settings, "shared_preload_libraries")
	delete(settings, "pg_stat_statements.track")
	return devpg.Start(ctx, devpg.Options{Settings: settings, Logger: logger})
}

func (s *server) connect(ctx context.Context) error {
	config, err := pgxpool.ParseConfig(s.dsn)
	if err != nil {
		return fmt.Errorf("--dsn: %w", err)
	}
	config.ConnConfig.RuntimeParams["application_name"] = "sched-bench"
	if s.admin, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return fmt.Errorf("--dsn: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	var backend int
	if err := s.admin.QueryRow(ctx, "select pg_backend_pid()").Scan(&backend); err != nil {
		return fmt.Errorf("no connection to Postgres: %w", err)
	}
	s.postmaster = postmasterOf(backend)
	if _, err := s.admin.Exec(ctx, "create extension if not exists pg_stat_statements"); err == nil {
		// Without the preloaded library the view exists and fails.
		var calls int64
		s.statements = s.admin.QueryRow(ctx, "select count(*) from pg_stat_statements").Scan(&calls) == nil
	}
	return nil
}

// postmasterOf finds the parent of a backend that runs on this machine; 0 when
// it doesn't.
func postmasterOf(backend int) int {
	stat, err := readStat(backend)
	if err != nil || stat.name != "postgres" {
		return 0
	}
	if parent, err := readStat(stat.parent); err != nil || parent.name != "postgres" {
		return 0
	}
	return stat.parent
}

func (s *server) close() error {
	if s.admin != nil {
		s.admin.Close()
	}
	if s.embedded != nil {
		return s.embedded.Stop()
	}
	return nil
}

// settings shows the server's version and what bears on a measurement.
func (s *server) settings(ctx context.Context) ([]limit, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	names := []string{
		"server_version", "shared_buffers", "fsync", "synchronous_commit", "full_page_writes",
		"max_wal_size", "checkpoint_timeout", "autovacuum", "max_connections",
	}
	list := make([]limit, len(names))
	for i, name := range names {
		list[i].name = name
		if err := s.admin.QueryRow(ctx, "select current_setting($1)", name).Scan(&list[i].value); err != nil {
			return nil, fmt.Errorf("reading the setting %s: %w", name, err)
		}
	}
	list[0].name = "Postgres"
	return list, nil
}

// cpu is the CPU time of the server's processes so far, if they are on this
// machine.
func (s *server) cpu() (time.Duration, error) {
	if s.postmaster == 0 {
		return 0, errNoProc
	}
	return treeCPU(s.postmaster)
}

// database is one made for a round.
type database struct {
	server *server
	name   string
	dsn    string
	pool   *pgxpool.Pool
}

// createDatabase makes an empty database. The caller drops it.
func (s *server) createDatabase(ctx context.Context, purpose string) (*database, error) {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	name := "sched_bench_" + purpose + "_" + strings.ToLower(rand.Text()[:10])
	if _, err := s.admin.Exec(ctx, "create database "+pgx.Identifier{name}.Sanitize()+" template template0"); err != nil {
		return nil, fmt.Errorf("creating database %s: %w; the role of --dsn needs CREATEDB", name, err)
	}
	db := &database{server: s, name: name, dsn: dsnFor(s.dsn, name)}
	config, err := pgxpool.ParseConfig(db.dsn)
	if err == nil {
		config.ConnConfig.RuntimeParams["application_name"] = "sched-bench"
		db.pool, err = pgxpool.NewWithConfig(ctx, config)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("database %s: %w", name, err), db.drop())
	}
	return db, nil
}

// drop removes the database, whoever is still connected.
func (d *database) drop() error {
	if d.pool != nil {
		d.pool.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	if _, err := d.server.admin.Exec(ctx, "drop database "+pgx.Identifier{d.name}.Sanitize()+" with (force)"); err != nil {
		return fmt.Errorf("dropping database %s: %w", d.name, err)
	}
	return nil
}

// settle brings a filled database into the state that each round starts from.
func (d *database) settle(ctx context.Context, table string) error {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	if _, err := d.pool.Exec(ctx, "analyze "+table); err != nil {
		return fmt.Errorf("analyze: %w", err)
	}
	return d.checkpoint(ctx)
}

func (d *database) checkpoint(ctx context.Context) error {
	if _, err := d.pool.Exec(ctx, "checkpoint"); err != nil {
		return fmt.Errorf("checkpoint: %w; the role of --dsn must be a superuser or a member of pg_checkpoint", err)
	}
	return nil
}

// clockOffset is how far the server's clock is ahead of this process's.
func (d *database) clockOffset(ctx context.Context) (time.Duration, error) {
	var theirs time.Time
	before := time.Now()
	if err := d.pool.QueryRow(ctx, "select clock_timestamp()").Scan(&theirs); err != nil {
		return 0, fmt.Errorf("reading the server's clock: %w", err)
	}
	return theirs.Sub(before.Add(time.Since(before) / 2)), nil
}

// dsnFor is dsn, a URL or a list of settings, for another database.
func dsnFor(dsn, name string) string {
	if u, err := url.Parse(dsn); err == nil && (u.Scheme == "postgres" || u.Scheme == "postgresql") {
		u.Path = "/" + name
		return u.String()
	}
	return dsn + " dbname=" + name // the last one wins
}
