package recipes_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// What docs/exactly-once.md says of transactions. No sidecar here: claim takes a task as one would.

const claimSQL = `
update sched.river_job
set state = 'running', attempt = attempt + 1, attempted_at = clock_timestamp(), attempted_by = array_append(attempted_by, 'w-000000000001')
where id = $1
returning 'w-000000000001.' || (extract(epoch from attempted_at) * 1000000)::bigint`

const (
	effectSQL   = "insert into invoices (order_id, cents) values (1, 9950)"
	completeSQL = "select sched.complete($1, $2)"
)

// claimed is a task that an attempt holds.
type claimed struct {
	*shop
	id    int64
	lease string
}

func newClaimed(t *testing.T) claimed {
	t.Helper()
	c := claimed{shop: newShop(t)}
	require.NoError(t, c.db.QueryRow(t.Context(), "select sched.enqueue('invoice')").Scan(&c.id))
	c.lease = c.claim(t)
	return c
}

func (c claimed) claim(t *testing.T) string {
	t.Helper()
	var lease string
	require.NoError(t, c.db.QueryRow(t.Context(), claimSQL, c.id).Scan(&lease))
	return lease
}

func (c claimed) begin(t *testing.T, options pgx.TxOptions) pgx.Tx {
	t.Helper()
	tx, err := c.db.BeginTx(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) }) // harmless when it has ended
	return tx
}

func (c claimed) requireUndone(t *testing.T) {
	t.Helper()
	require.Equal(t, "running", c.task(t, "id = $1", c.id).Status)
	require.Zero(t, c.count(t, "invoices"))
}

func execTx(t *testing.T, tx pgx.Tx, sql string, args ...any) {
	t.Helper()
	_, err := tx.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

func requireState(t *testing.T, err error, state string) {
	t.Helper()
	var refused *pgconn.PgError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, state, refused.Code, refused.Message)
}

func TestOnce_SavepointTakesTheCompletionBack(t *testing.T) {
	t.Parallel()
	c := newClaimed(t)
	tx := c.begin(t, pgx.TxOptions{})
	execTx(t, tx, "savepoint inner_block")
	execTx(t, tx, effectSQL)
	execTx(t, tx, completeSQL, c.id, c.lease)
	execTx(t, tx, "rollback to inner_block")
	require.NoError(t, tx.Commit(t.Context()))
	c.requireUndone(t)
}

func TestOnce_CommitOfAFailedTransactionRollsBackWithoutAnError(t *testing.T) {
	t.Parallel()
	c := newClaimed(t)
	connection := c.connect(t, c.app)
	run := func(sql string) (string, error) {
		results, err := connection.Exec(t.Context(), sql).ReadAll()
		if err != nil {
			return "", err
		}
		return results[0].CommandTag.String(), nil
	}
	for _, sql := range []string{"begin", effectSQL} {
		_, err := run(sql)
		require.NoError(t, err)
	}
	_, err := run("select sched.complete(1, 'w-000000000001.1')")
	requireState(t, err, "SC409")
	tag, err := run("commit") // as an app does that swallows the error
	require.NoError(t, err)
	require.Equal(t, "ROLLBACK", tag)
	c.requireUndone(t)
}

// One attempt's request sent twice at once, as by a proxy: the second waits for
// the first and takes its place only if that rolls back.
func TestOnce_TwoRequestsOfOneAttempt(t *testing.T) {
	t.Parallel()
	for name, commits := range map[string]bool{"first commits": true, "first rolls back": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClaimed(t)
			first, second := c.begin(t, pgx.TxOptions{}), c.begin(t, pgx.TxOptions{})
			execTx(t, first, effectSQL)
			execTx(t, first, completeSQL, c.id, c.lease)
			execTx(t, second, effectSQL)
			waited := make(chan error, 1)
			go func() {
				_, err := second.Exec(t.Context(), completeSQL, c.id, c.lease)
				waited <- err
			}()
			const waiting = "pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
			require.Eventually(t, func() bool { return c.count(t, waiting) == 1 }, soon, tick)
			if commits {
				require.NoError(t, first.Commit(t.Context()))
				requireState(t, <-waited, "SC409")
				require.NoError(t, second.Rollback(t.Context()))
			} else {
				require.NoError(t, first.Rollback(t.Context()))
				require.NoError(t, <-waited)
				require.NoError(t, second.Commit(t.Context()))
			}
			require.Equal(t, "completed", c.task(t, "id = $1", c.id).Status)
			require.Equal(t, 1, c.count(t, "invoices"))
		})
	}
}

// An attempt goes on in a transaction that is older than the loss of its task.
func TestOnce_LateAttemptLosesAtEveryIsolationLevel(t *testing.T) {
	t.Parallel()
	for level, state := range map[pgx.TxIsoLevel]string{pgx.ReadCommitted: "SC409", pgx.RepeatableRead: "40001", pgx.Serializable: "40001"} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			c := newClaimed(t)
			late := c.begin(t, pgx.TxOptions{IsoLevel: level})
			execTx(t, late, effectSQL)

			again := c.claim(t) // by another worker, once the first seemed dead
			tx := c.begin(t, pgx.TxOptions{})
			execTx(t, tx, effectSQL)
			execTx(t, tx, completeSQL, c.id, again)
			require.NoError(t, tx.Commit(t.Context()))

			_, err := late.Exec(t.Context(), completeSQL, c.id, c.lease)
			requireState(t, err, state)
			require.Error(t, late.Commit(t.Context()))
			require.Equal(t, 1, c.count(t, "invoices"))
		})
	}
}
