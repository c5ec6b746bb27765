package migrations

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
)

//go:embed *.sql
var files embed.FS

const (
	schemaName   = "sched"
	versionTable = schemaName + ".goose_db_version"
)

// Up brings the database that dsn names to the newest version.
func Up(ctx context.Context, dsn string, opts Options) error {
	return UpTo(ctx, dsn, math.MaxInt64, opts)
}

// UpTo brings the database to version, or leaves it if it is there already. A
// version the program doesn't have means the nearest lower one.
func UpTo(ctx context.Context, dsn string, version int64, opts Options) error {
	if version < 1 {
		return fmt.Errorf("migrate up to version %d: versions begin with 1", version)
	}
	return withSession(ctx, dsn, opts, func(s *session) error {
		if !s.opts.NoRoles {
			if err := s.createRoles(ctx); err != nil {
				return err
			}
		}
		if err := s.createSchema(ctx); err != nil {
			return err
		}
		provider, err := s.provider()
		if err != nil {
			return err
		}
		if err := refuseUnknown(ctx, provider); err != nil {
			return err
		}
		if !s.opts.NoRoles {
			if err := s.actAsOwner(ctx); err != nil {
				return err
			}
		}
		err = s.waitForLocks(ctx, func() error { return s.logged(provider.UpTo(ctx, version)) })
		if err != nil {
			return fmt.Errorf("migrate up: %w", err)
		}
		if s.opts.NoRoles {
			return nil
		}
		return s.grant(ctx)
	})
}

// Down removes everything from the database: the tables with all tasks, and the
// schema last.
func Down(ctx context.Context, dsn string, opts Options) error {
	return DownTo(ctx, dsn, 0, opts)
}

// DownTo takes back all migrations above version. Version 0 removes the schema,
// with all tasks.
func DownTo(ctx context.Context, dsn string, version int64, opts Options) error {
	if version < 0 {
		return fmt.Errorf("migrate down to version %d: 0 is the lowest, an empty database", version)
	}
	return withSession(ctx, dsn, opts, func(s *session) error {
		migrated, err := s.migrated(ctx)
		if err != nil {
			return err
		}
		if migrated {
			if err := s.down(ctx, version); err != nil {
				return err
			}
		}
		if version == 0 && s.opts.DropRoles && !s.opts.NoRoles {
			return s.dropRoles(ctx)
		}
		return nil
	})
}

func (s *session) down(ctx context.Context, version int64) error {
	provider, err := s.provider()
	if err != nil {
		return err
	}
	if err := refuseUnknown(ctx, provider); err != nil {
		return err
	}
	err = s.waitForLocks(ctx, func() error { return s.logged(provider.DownTo(ctx, version)) })
	if err != nil {
		return fmt.Errorf("migrate down: %w", err)
	}
	if version > 0 {
		return s.grantIfOwned(ctx)
	}
	if !s.opts.NoRoles {
		if err := s.revoke(ctx); err != nil {
			return err
		}
	}
	return s.dropSchema(ctx)
}

// Migration is one migration as [Status] reports it.
type Migration struct {
	Version   int64
	Name      string
	Applied   bool
	AppliedAt time.Time // zero unless applied
}

// Status lists all migrations that this program has, and whether the database
// has them. It changes nothing and doesn't wait for a running migration.
func Status(ctx context.Context, dsn string) ([]Migration, error) {
	var list []Migration
	err := withReader(ctx, dsn, func(s *session, migrated bool) error {
		provider, err := s.provider()
		if err != nil {
			return err
		}
		if !migrated {
			for _, source := range provider.ListSources() {
				list = append(list, Migration{Version: source.Version, Name: sourceName(source)})
			}
			return nil
		}
		statuses, err := provider.Status(ctx)
		if err != nil {
			return fmt.Errorf("read migration status: %w", err)
		}
		for _, st := range statuses {
			list = append(list, Migration{
				Version: st.Source.Version, Name: sourceName(st.Source),
				Applied: st.State == goose.StateApplied, AppliedAt: st.AppliedAt,
			})
		}
		return nil
	})
	return list, err
}

// VersionInfo is what [Version] reports.
type VersionInfo struct {
	Current  int64 // migration that the database is at; 0 without a schema
	Latest   int64 // newest migration that this program has
	Contract int   // contract version of the schema; 0 without one
}

// Version says how far the database is migrated. It changes nothing.
func Version(ctx context.Context, dsn string) (VersionInfo, error) {
	var info VersionInfo
	err := withReader(ctx, dsn, func(s *session, migrated bool) error {
		provider, err := s.provider()
		if err != nil {
			return err
		}
		sources := provider.ListSources()
		info.Latest = sources[len(sources)-1].Version
		if !migrated {
			return nil
		}
		if info.Current, err = provider.GetDBVersion(ctx); err != nil {
			return fmt.Errorf("read migration version: %w", err)
		}
		err = s.lock.QueryRow(ctx, "SELECT sched.contract_version()").Scan(&info.Contract)
		var pgErr *pgconn.PgError
		if err != nil && !(errors.As(err, &pgErr) && pgErr.Code == codeUndefinedFunction) {
			return fmt.Errorf("read contract version: %w", err)
		}
		return nil
	})
	return info, err
}

// refuseUnknown keeps an old program from migrating a schema that a newer one
// has made: it couldn't take back, or build on, what it doesn't know.
func refuseUnknown(ctx context.Context, provider *goose.Provider) error {
	current, err := provider.GetDBVersion(ctx)
	if err != nil {
		return fmt.Errorf("read migration version: %w", err)
	}
	sources := provider.ListSources()
	if latest := sources[len(sources)-1].Version; current > latest {
		return fmt.Errorf("%w: it is at migration %d and this program has migrations up to %d: use the release that made it, or a later one",
			ErrSchemaTooNew, current, latest)
	}
	return nil
}
