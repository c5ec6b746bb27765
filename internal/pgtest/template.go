package pgtest

import (
	"context"

	"github.com/sched-sidecar/sched/migrations"
)

// migrate is what makes a database a migrated one.
func migrate(ctx context.Context, dsn string) error {
	return migrations.Up(ctx, dsn, migrations.Options{})
}
