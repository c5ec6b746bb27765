package routing_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

type waitingRow struct {
	Queue   *string
	Waiting *int
}

func countWaiting(t *testing.T, db pgx.Tx, after string, most, budget, largest int) []string {
	t.Helper()
	rows, err := db.Query(t.Context(), `select * from sched.count_waiting($1, $2, $3, $4)`, after, most, budget, largest)
	require.NoError(t, err)
	got, err := pgx.CollectRows(rows, pgx.RowToStructByPos[waitingRow])
	require.NoError(t, err)
	var texts []string
	for _, row := range got {
		switch {
		case row.Queue == nil:
			texts = append(texts, "end")
		case row.Waiting == nil:
			texts = append(texts, *row.Queue+" ?")
		default:
			texts = append(texts, fmt.Sprintf("%s %d", *row.Queue, *row.Waiting))
		}
	}
	return texts
}

// However many tasks wait, and though Postgres believes the table to be empty, a count
// reads max_pending entries of one index and no row beside.
func TestCountOfALargeBacklogIsBounded(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	_, err := pool.Exec(t.Context(), `
		alter table sched.river_job set (autovacuum_enabled = off);
		insert into sched.river_job (kind, queue, args, max_attempts, priority)
		select 'k', case n % 3 when 0 then 'a' when 1 then 'b' else 'c' end, '{}', 25, 1 + n % 4 from generate_series(1, 300000) n;
		insert into sched.queue (name, base, max_pending) values ('b', 'b', 200), ('c', 'c', 50000)`)
	require.NoError(t, err)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	read := func() (n int) {
		require.NoError(t, tx.QueryRow(t.Context(), `select
			(select sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) from pg_stat_xact_user_tables where relname = 'river_job')`).Scan(&n))
		return n
	}
	before := read()
	require.Equal(t, []string{"a 1000", "b 200", "c ?", "end"}, countWaiting(t, tx, "", 1000, 50_000, 20_000))
	require.LessOrEqual(t, read()-before, 1000+200+4)
	require.Equal(t, []string{"a 1000"}, countWaiting(t, tx, "", 1000, 500, 20_000), "the budget is spent with the first")
	require.Equal(t, []string{"b 200", "c 50000", "end"}, countWaiting(t, tx, "a", 1000, 100_000, 1_000_000), "on from there")
}

func TestCountGoesOnWhereTheBudgetEnded(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.exec(`insert into sched.queue (name, base, max_pending) select 'q' || lpad(n::text, 4, '0'), 'q', 100 from generate_series(1, 600) n`)
	l.exec(`insert into sched.river_job (kind, queue, args, max_attempts) select 'k', 'q' || lpad(n::text, 4, '0'), '{}', 25
		from generate_series(1, 600) n, generate_series(1, 90)`)
	l.turn()
	counted := l.count(`select count(*) from sched.queue where pending > 0`)
	require.Less(t, counted, 500, "600 queues with 90 tasks each are above one turn's budget")
	require.Greater(t, counted, 300)
	for range 3 {
		l.turn()
	}
	require.Equal(t, 600, l.count(`select count(*) from sched.queue where pending = 90 and pressure = 'red'`))
	l.exec(`delete from sched.river_job`)
	for range 3 { // to the end of the lap, and one more
		l.turn()
	}
	require.Equal(t, 600, l.count(`select count(*) from sched.queue where pending = 0 and pressure = 'green'`))
}

func TestLargeLimitsAreCountedNowAndThen(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.exec(`insert into sched.queue (name, base, max_pending) values ('big', 'big', 130000), ('small', 'small', NULL)`)
	l.tasks("big", 125_000)
	l.turn()
	require.Equal(t, "red", l.state("big", "pressure"))
	l.exec(`delete from sched.river_job`)
	l.tasks("big", 1)
	l.tasks("small", 3)
	l.turn()
	require.Equal(t, "125000", l.state("big", "pending"), "the count of the turn before is still to be paid for")
	require.Equal(t, "3", l.state("small", "pending"), "others are counted each turn")
	l.turn()
	l.turn()
	require.Equal(t, "1", l.state("big", "pending"))
}

func TestCountsThatFailAreForgotten(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.worker("w-1", `{}`)
	l.queue("mail", `{}`, "any")
	l.tasks("mail", 1000)
	l.turn()
	require.Equal(t, "red", l.state("mail", "pressure"))
	l.exec(`alter function sched.count_waiting(text, integer, integer, integer) rename to away`)
	require.Error(t, l.try())
	require.Equal(t, "red", l.state("mail", "pressure"), "what was counted a moment ago still holds")
	l.queue("new", `{}`, "any")
	require.Eventually(t, func() bool {
		require.Error(t, l.try())
		return l.state("mail", "pressure") == "green"
	}, patience, pause, "measures of old keep nobody out")
	require.Equal(t, "1", l.state("new", "workers"), "the other duties are done")
	l.exec(`update sched.fleet set computed_at = null`)
	require.Eventually(t, func() bool {
		require.Error(t, l.try())
		return l.count(`select count(*) from sched.fleet where computed_at is not null`) == 1
	}, patience, pause, "and written")
}
