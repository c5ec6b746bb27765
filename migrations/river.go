package migrations

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pressly/goose/v3"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const (
	// riverStep is the version of River's step in our own line of migrations.
	riverStep = 1
	// riverVersion is the version of River's line main that the step reaches. A
	// River release with more migrations gets a step of its own here.
	riverVersion = 8
)

// riverMigration is River's tables as one migration. Locking: creates new tables
// only.
func (s *session) riverMigration() *goose.Migration {
	return goose.NewGoMigration(riverStep,
		&goose.GoFunc{RunDB: func(ctx context.Context, _ *sql.DB) error {
			return s.migrateRiver(ctx, rivermigrate.DirectionUp, riverVersion)
		}},
		&goose.GoFunc{RunDB: func(ctx context.Context, db *sql.DB) error {
			// On its way down River builds an index that wants unique keys to be
			// unique over finished tasks too. The table is about to go.
			_, err := db.ExecContext(ctx, `DO $$ BEGIN
				IF to_regclass('sched.river_job') IS NOT NULL THEN TRUNCATE sched.river_job; END IF;
			END $$`)
			if err != nil {
				return fmt.Errorf("empty sched.river_job: %w", err)
			}
			return s.migrateRiver(ctx, rivermigrate.DirectionDown, -1)
		}},
	)
}

func (s *session) migrateRiver(ctx context.Context, direction rivermigrate.Direction, target int) error {
	config := s.pool.Copy()
	config.AfterConnect = settle
	config.MaxConns, config.MinConns = 2, 0
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("river: %w", err)
	}
	defer pool.Close()

	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Schema: schemaName, Logger: s.opts.Logger})
	if err != nil {
		return fmt.Errorf("river: %w", err)
	}
	if _, err := migrator.Migrate(ctx, direction, &rivermigrate.MigrateOpts{TargetVersion: target}); err != nil {
		return fmt.Errorf("river: %w", err)
	}
	return nil
}
