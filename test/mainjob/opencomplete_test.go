package mainjob_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// openComplete begins a transaction that has completed its task and isn't over.
func (f *fleet) openComplete(c *call) (pgx.Tx, error) {
	tx, err := f.db.Begin(context.WithoutCancel(c.ctx))
	if err != nil {
		return nil, err
	}
	_, err = tx.Exec(context.WithoutCancel(c.ctx), "INSERT INTO effect (task_id, lease) VALUES ($1, $2)", c.id, c.lease)
	if err == nil {
		_, err = tx.Exec(context.WithoutCancel(c.ctx), "SELECT sched.complete($1, $2)", c.id, c.lease)
	}
	return tx, err
}

func TestOpenCompleteBlocksNoSettle(t *testing.T) {
	t.Parallel()
	openCompleteBlocksNoSettle(t, quick(), 2*quickEvict)
}

// openCompleteBlocksNoSettle: one app keeps its completing transaction open,
// and one even answers while it is; the sidecar's other settles go on.
func openCompleteBlocksNoSettle(t *testing.T, set settings, length time.Duration) {
	f := newFleet(t)
	done := make(chan error, 2)
	a := newApp(t, nil)
	hold := newGate(t) // after the app: it opens before the app waits for its handlers
	a.handle = func(c *call) answer {
		switch c.kind {
		case "open", "open.and.answered":
			tx, err := f.openComplete(c)
			if err != nil {
				return answer{status: http.StatusInternalServerError, body: err.Error()}
			}
			finish := func() {
				<-hold.ch
				done <- tx.Commit(context.WithoutCancel(c.ctx))
			}
			if c.kind == "open" {
				finish()
			} else {
				go finish()
			}
		case "fails":
			return answer{status: http.StatusInternalServerError}
		}
		return answer{status: http.StatusOK, body: `{"by": "answer"}`}
	}
	s := startSidecar(t, f.dsn, a.url, set)
	open, answered := enqueue(t, f.db, "open"), enqueue(t, f.db, "open.and.answered")
	a.await(t, open, 1, soon)
	awaitEnd(t, a.await(t, answered, 1, soon))

	// More than one batch of settles, of more than one outcome.
	over := time.NewTimer(length)
	defer over.Stop()
	for waiting := true; waiting; {
		enqueueMany(t, f.db, "ok", 20)
		failed := enqueue(t, f.db, "fails", with("max_attempts", 1))
		awaitDrained(t, f.db, "ok", soon)
		awaitStatus(t, f.db, failed, "discarded", soon)
		select {
		case <-over.C:
			waiting = false
		default:
		}
	}
	for _, id := range []int64{open, answered} {
		require.Equal(t, "running", readTask(t, f.db, id).Status, "its transaction isn't over")
		require.Len(t, a.callsOf(id), 1)
	}

	hold.open()
	for range 2 {
		require.NoError(t, <-done, "the app's commit")
	}
	for _, id := range []int64{open, answered} {
		awaitStatus(t, f.db, id, "completed", soon)
		require.Len(t, a.callsOf(id), 1)
	}
	f.requireEffectsOnce([]int64{open, answered})
	require.Equal(t, "active", f.workerState(s.workers(t, f.db)[0]))
	require.Len(t, s.workers(t, f.db), 1)
}

func TestOpenCompleteBlocksNoEviction(t *testing.T) {
	t.Parallel()
	openCompleteBlocksNoEviction(t, quick(), quickEvict, 2*quickEvict)
}

// openCompleteBlocksNoEviction: a sidecar dies while its app completes one task
// and will give up another. Both rows are locked; the eviction doesn't wait.
func openCompleteBlocksNoEviction(t *testing.T, set settings, evict, length time.Duration) {
	f := newFleet(t)
	startSidecar(t, f.dsn, newApp(t, nil).url, set.plus(settings{setQueues: "nobody-uses-this"})).awaitLeading(t)
	done := make(chan error, 2)
	dying := newApp(t, nil)
	commit, rollback := newGate(t), newGate(t) // after the app, as above
	dying.handle = func(c *call) answer {
		if c.kind == "held" {
			<-c.ctx.Done()
			return answer{status: http.StatusOK}
		}
		tx, err := f.openComplete(c)
		if err != nil {
			return answer{status: http.StatusInternalServerError, body: err.Error()}
		}
		if c.kind == "commits" {
			<-commit.ch
			done <- tx.Commit(context.WithoutCancel(c.ctx))
		} else {
			<-rollback.ch
			done <- tx.Rollback(context.WithoutCancel(c.ctx))
		}
		return answer{status: http.StatusOK}
	}
	victim := startSidecar(t, f.dsn, dying.url, set)
	commits, rollsBack, held := enqueue(t, f.db, "commits"), enqueue(t, f.db, "rolls.back"), enqueueMany(t, f.db, "held", 5)
	for _, id := range slices.Concat([]int64{commits, rollsBack}, held) {
		dying.await(t, id, 1, soon)
	}
	eventually(t, soon, func() bool {
		var locked int
		require.NoError(t, f.db.QueryRow(t.Context(), `
			SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction' AND query LIKE '%sched.complete%'`).Scan(&locked))
		return locked == 2
	}, func() string { return "the app doesn't hold its two transactions" })
	worker := victim.workers(t, f.db)[0]

	heir := newApp(t, nil)
	heir.handle = f.effectOnce
	startSidecar(t, f.dsn, heir.url, set)
	over := time.NewTimer(length)
	defer over.Stop()
	victim.kill()

	f.awaitEvicted(worker, evict+soon)
	awaitDrained(t, f.db, "held", soon)
	<-over.C
	for _, id := range []int64{commits, rollsBack} {
		require.Equal(t, "running", readTask(t, f.db, id).Status, "its row is locked")
		require.Empty(t, heir.callsOf(id))
	}

	commit.open()
	require.NoError(t, <-done, "the completing app's commit must not fail for the eviction")
	awaitStatus(t, f.db, commits, "completed", soon)
	rollback.open()
	require.NoError(t, <-done)
	k := awaitStatus(t, f.db, rollsBack, "completed", evict+soon) // swept again
	require.Equal(t, 1, k.Lost)
	require.Empty(t, heir.callsOf(commits))
	require.Len(t, heir.callsOf(rollsBack), 1)
	f.requireEffectsOnce(slices.Concat([]int64{commits, rollsBack}, held))
}
