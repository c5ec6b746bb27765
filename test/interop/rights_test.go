package interop_test

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

// The rights that docs/river.md grants, taken from that page, are all that an
// insert-only client needs.
func TestRights(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.river = insertOnly(t, b.asRiverClient(t))

	id := b.insert(t, job{"", "greet"}, nil).ID
	unique := &river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true}}
	b.insert(t, exclusive{"ann", ""}, unique)
	_, duplicate := b.onceMore(t, exclusive{"ann", ""}, *unique)
	require.True(t, duplicate)
	_, err := b.river.InsertManyFast(t.Context(), []river.InsertManyParams{{Args: job{"", "greet"}}})
	require.NoError(t, err)
	b.wait(t, id, "completed")
	_, err = b.river.JobList(t.Context(), river.NewJobListParams())
	require.NoError(t, err)
	_, err = b.river.JobRetry(t.Context(), id)
	require.NoError(t, err)
	b.wait(t, id, "completed")
	_, err = b.river.JobCancel(t.Context(), id)
	require.NoError(t, err)
	_, err = b.river.JobUpdate(t.Context(), id, &river.JobUpdateParams{Output: 1})
	require.NoError(t, err)
	require.NoError(t, b.river.QueuePause(t.Context(), "default", nil))
	require.NoError(t, b.river.QueueResume(t.Context(), "default", nil))
	_, err = b.river.QueueUpdate(t.Context(), "default", &river.QueueUpdateParams{Metadata: []byte(`{}`)})
	require.NoError(t, err)
	_, err = b.river.JobDelete(t.Context(), id)
	require.NoError(t, err)
}

// asRiverClient is a pool of a login role with those rights.
func (b *bundle) asRiverClient(t *testing.T) *pgxpool.Pool {
	t.Helper()
	page, err := os.ReadFile("../../docs/river.md")
	require.NoError(t, err)
	block := regexp.MustCompile("(?s)```sql\n(CREATE ROLE sched_river .*?)```").FindSubmatch(page)
	require.NotNil(t, block, "docs/river.md lists the grants")
	const role = "river_interop_test"
	_, err = b.pool.Exec(t.Context(), strings.ReplaceAll(string(block[1]), "sched_river", role)+"ALTER ROLE "+role+" LOGIN PASSWORD 'p'")
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := b.pool.Exec(context.Background(), `DROP OWNED BY `+role+`; DROP ROLE `+role, pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err)
	})
	config, err := pgxpool.ParseConfig(pgtest.DSN(b.pool))
	require.NoError(t, err)
	config.ConnConfig.User, config.ConnConfig.Password = role, "p"
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}
