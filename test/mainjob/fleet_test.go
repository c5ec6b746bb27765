package mainjob_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/devpg"
	"github.com/sched-sidecar/sched/internal/pgtest"
)

// fleet is a database and the sidecars on it.
type fleet struct {
	t   *testing.T
	db  *pgxpool.Pool
	dsn string
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	pool := pgtest.New(t)
	f := &fleet{t: t, db: pool, dsn: pgtest.DSN(pool)}
	f.createEffects()
	return f
}

// newPrivateFleet is a fleet on a server that the test may kill.
func newPrivateFleet(t *testing.T) (*fleet, *devpg.Server) {
	t.Helper()
	server := pgtest.Server(t)
	pool := pgtest.NewOn(t, server)
	f := &fleet{t: t, db: pool, dsn: server.DSN()}
	f.createEffects()
	return f, server
}

// awaitDatabase waits until the restarted server answers, on new connections.
func (f *fleet) awaitDatabase() {
	f.t.Helper()
	f.db.Reset()
	var err error
	eventually(f.t, soon, func() bool {
		err = f.db.Ping(f.t.Context())
		return err == nil
	}, func() string { return fmt.Sprintf("Postgres isn't back: %v", err) })
}

// start runs a sidecar with the quick timing and waits until it is ready.
func (f *fleet) start(a *app, set settings) *sidecar {
	f.t.Helper()
	return startSidecar(f.t, f.dsn, a.url, quick().plus(set))
}

// startLeader runs a sidecar that leads the fleet and claims nothing, so that
// the others can be killed without waiting for an election.
func (f *fleet) startLeader() *sidecar {
	f.t.Helper()
	s := f.start(newApp(f.t, nil), settings{setQueues: "nobody-uses-this"})
	eventually(f.t, leaderless, func() bool {
		var leads bool
		require.NoError(f.t, f.db.QueryRow(f.t.Context(), "SELECT EXISTS (SELECT 1 FROM sched.river_leader WHERE expires_at > now())").Scan(&leads))
		return leads
	}, func() string { return "no leader" })
	return s
}

// workerState reads a registration's state.
func (f *fleet) workerState(id string) string {
	f.t.Helper()
	var state string
	require.NoError(f.t, f.db.QueryRow(f.t.Context(), "SELECT state FROM sched.worker WHERE id = $1", id).Scan(&state))
	return state
}

// countWorkers counts registrations in a state.
func (f *fleet) countWorkers(state string) int {
	f.t.Helper()
	var n int
	require.NoError(f.t, f.db.QueryRow(f.t.Context(), "SELECT count(*) FROM sched.worker WHERE state = $1", state).Scan(&n))
	return n
}

func (f *fleet) awaitEvicted(worker string, within time.Duration) {
	f.t.Helper()
	eventually(f.t, within, func() bool { return f.workerState(worker) == "evicted" },
		func() string { return "worker " + worker + " is " + f.workerState(worker) + ", not evicted" })
}

// The business side: a handler's effect is a row. There is no unique
// constraint, so an effect that happens twice shows.

func (f *fleet) createEffects() {
	f.t.Helper()
	_, err := f.db.Exec(f.t.Context(), "CREATE TABLE effect (task_id bigint NOT NULL, lease text NOT NULL)")
	require.NoError(f.t, err)
}

// effectOnce is a handler that has its effect and finishes its task in one
// transaction, as docs/http.md recommends.
func (f *fleet) effectOnce(c *call) answer { return effectOnce(c.ctx, f.db, c.id, c.lease) }

func effectOnce(ctx context.Context, db *pgxpool.Pool, id int64, lease string) answer {
	tx, err := db.Begin(ctx)
	if err != nil {
		return answer{status: http.StatusInternalServerError, body: err.Error()}
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	if _, err = tx.Exec(ctx, "INSERT INTO effect (task_id, lease) VALUES ($1, $2)", id, lease); err == nil {
		_, err = tx.Exec(ctx, "SELECT sched.complete($1, $2)", id, lease)
	}
	if err == nil {
		err = tx.Commit(ctx)
	}
	var refused *pgconn.PgError
	switch {
	case err == nil:
		return answer{status: http.StatusNoContent}
	case errors.As(err, &refused) && refused.Code == "SC409":
		return answer{status: http.StatusConflict, body: refused.Message}
	default:
		// Perhaps committed, perhaps not: the lease decides, not this answer.
		return answer{status: http.StatusInternalServerError, body: err.Error()}
	}
}

// requireEffectsOnce checks that each of these tasks had its effect once, and
// that nothing else had one.
func (f *fleet) requireEffectsOnce(ids []int64) {
	f.t.Helper()
	var missing, twice, strange int
	require.NoError(f.t, f.db.QueryRow(f.t.Context(), `
		SELECT count(*) FILTER (WHERE effects = 0), count(*) FILTER (WHERE effects > 1), count(*) FILTER (WHERE task_id IS NULL)
		FROM (SELECT task_id, count(e.id) AS effects
		      FROM unnest($1::bigint[]) AS task_id FULL JOIN (SELECT task_id AS id FROM effect) AS e ON e.id = task_id
		      GROUP BY task_id) AS tally`, ids).Scan(&missing, &twice, &strange))
	require.Zero(f.t, missing, "tasks without their effect")
	require.Zero(f.t, twice, "tasks whose effect happened more than once")
	require.Zero(f.t, strange, "effects of tasks that nobody enqueued")
}
