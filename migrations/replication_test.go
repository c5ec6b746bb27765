package migrations_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/devpg"
	"github.com/sched-sidecar/sched/internal/pgtest"
)

// replicationSQL returns the SQL blocks of the page on replication.
func replicationSQL(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../docs/replication.md")
	require.NoError(t, err)
	var blocks []string
	for _, m := range regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		blocks = append(blocks, m[1])
	}
	require.Len(t, blocks, 2)
	return blocks
}

// The page's statements replicate the archive into another database: what is there, what comes, and what is brought back;
// a month that is dropped here stays there.
func TestArchiveIsReplicated(t *testing.T) {
	t.Parallel()
	server, err := devpg.Start(t.Context(), devpg.Options{Fast: true, Settings: map[string]string{"wal_level": "logical"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	pool := pgtest.NewOn(t, server)
	exec(t, pool, "CREATE DATABASE warehouse")
	there, err := pgxpool.New(t.Context(), server.SocketDSN("warehouse"))
	require.NoError(t, err)
	t.Cleanup(there.Close)

	ended(t, pool, "completed", "1 hour")
	require.Equal(t, 4, keepMonths(t, pool).Made)
	require.Equal(t, 1, archive(t, pool))
	blocks := replicationSQL(t)
	exec(t, pool, strings.ReplaceAll(blocks[0], "'…'", "'secret'"))
	database := one[string](t, pool, "SELECT current_database()::text")
	table, subscription, found := strings.Cut(blocks[1], "CREATE SUBSCRIPTION")
	require.True(t, found)
	exec(t, there, table)
	// Both databases are on one server: the slot is made beside, or each would wait for the other.
	exec(t, pool, "SELECT pg_create_logical_replication_slot('sched_archive', 'pgoutput')")
	connection := "host=" + server.SocketDir() + " port=" + one[string](t, pool, "SELECT current_setting('port')") + " dbname=" + database + " user=warehouse"
	subscription = regexp.MustCompile(`CONNECTION '[^']*'`).ReplaceAllString(strings.TrimRight(strings.TrimSpace(subscription), ";"), "CONNECTION '"+connection+"'")
	exec(t, there, "CREATE SUBSCRIPTION"+" "+strings.TrimSpace(subscription)+" WITH (create_slot = false)")
	arrives := func(want int64, why string) {
		require.Eventually(t, func() bool { return one[int64](t, there, "SELECT count(*) FROM sched.task_archive") == want }, time.Minute, 50*time.Millisecond, why)
	}
	arrives(1, "what was there")
	id := ended(t, pool, "discarded", "2 hours")
	require.Equal(t, 1, archive(t, pool))
	arrives(2, "what comes")
	require.Equal(t, "discarded", one[string](t, there, "SELECT status FROM sched.task_archive WHERE id = $1", id))
	require.Equal(t, "available", one[string](t, pool, "SELECT sched.retry($1)", id))
	arrives(1, "what was brought back")
	exec(t, pool, "DROP TABLE "+one[string](t, pool, "SELECT tableoid::regclass::text FROM sched.task_archive"))
	exec(t, pool, `UPDATE sched.river_job SET state = 'discarded', finalized_at = now() - interval '1 hour' WHERE id = $1`, id)
	require.Equal(t, 1, archive(t, pool))
	arrives(2, "a month dropped here stays there")
}
