package interop_test

import (
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/doctor"
	"github.com/sched-sidecar/sched/internal/pgtest"
)

func leaderOf(t *testing.T, b *bundle) string {
	t.Helper()
	return scalar[string](t, b.pool, `SELECT coalesce((SELECT leader_id FROM sched.river_leader WHERE expires_at > now()), '')`)
}

// examined is what sched doctor says about one thing.
func examined(t *testing.T, b *bundle, check string) []doctor.Finding {
	t.Helper()
	all, err := doctor.Run(t.Context(), doctor.Options{DSN: pgtest.DSN(b.pool)})
	require.NoError(t, err)
	var findings []doctor.Finding
	for _, finding := range all {
		if finding.Check == check {
			findings = append(findings, finding)
		}
	}
	return findings
}

func TestLeader_OurFleetIsHealthy(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.wait(t, b.insert(t, job{"", "greet"}, nil).ID, "completed")
	eventually(t, func() bool { return leaderOf(t, b) != "" }, "the sidecar should be elected")

	all, err := doctor.Run(t.Context(), doctor.Options{DSN: pgtest.DSN(b.pool)})
	require.NoError(t, err)
	require.Equal(t, doctor.OK, doctor.Worst(all), "%+v", all)
}

// The client that docs/river.md warns of: it works a queue and takes part in the
// election. Here it is elected first, and the doctor names it.
func TestLeader_ForeignIsNamed(t *testing.T) {
	t.Parallel()
	b := &bundle{pool: pgtest.New(t), app: newApp(t)}
	b.river = insertOnly(t, b.pool)
	foreign := working(t, b.pool, elected)
	eventually(t, func() bool { return leaderOf(t, b) == foreign.ID() }, "the foreign client should be elected")
	startSidecar(t, b.pool, b.app, onlyDefault)

	findings := examined(t, b, "leader")
	require.Len(t, findings, 1)
	require.Equal(t, doctor.Failed, findings[0].Level)
	require.Contains(t, findings[0].Message, foreign.ID())
	require.Contains(t, findings[0].Advice, "LeaderElectionDisabled")
}

// Why it matters: a foreign leader takes what runs for longer than it knows of for
// stuck, and discards it when it doesn't know the kind.
func TestLeader_ForeignDiscardsWhatRunsHere(t *testing.T) {
	t.Parallel()
	b := &bundle{pool: pgtest.New(t), app: newApp(t)}
	b.river = insertOnly(t, b.pool)
	foreign := working(t, b.pool, elected, func(c *river.Config) { c.JobTimeout, c.RescueStuckJobsAfter = tick, tick })
	eventually(t, func() bool { return leaderOf(t, b) == foreign.ID() }, "the foreign client should be elected")
	b.wait(t, b.enqueue(t, `'warm_up'`), "available")
	startSidecar(t, b.pool, b.app, onlyDefault)
	handle, _ := holding(t)
	b.app.on("long", handle)
	id := b.enqueue(t, `'long'`)
	c := b.app.await(t, id, 1)

	// A leader of River searches for stuck jobs every 30 s.
	require.Eventually(t, func() bool { return b.status(t, id) == "discarded" }, 90*time.Second, tick)
	require.Equal(t, "active", scalar[string](t, b.pool, `SELECT state FROM sched.worker`), "our worker is alive and well")
	eventually(t, func() bool { return c.ctx.Err() != nil }, "the sidecar notices within seconds, and hangs up")
	require.Equal(t, "discarded", b.status(t, id), "its own outcome is refused")
}

// What must hold of every client that docs/river.md allows: it never leads.
func TestLeader_AllowedClientsNeverLead(t *testing.T) {
	t.Parallel()
	b := &bundle{pool: pgtest.New(t), app: newApp(t)}
	b.river = insertOnly(t, b.pool)
	require.Error(t, b.river.Start(t.Context()), "an insert-only client can't even be started")
	worker := working(t, b.pool)
	row := b.insert(t, goArgs{}, &river.InsertOpts{Queue: "go-only"})
	b.wait(t, row.ID, "completed")
	require.Empty(t, leaderOf(t, b))

	startSidecar(t, b.pool, b.app, onlyDefault)
	eventually(t, func() bool { return leaderOf(t, b) != "" }, "the sidecar should be elected")
	require.NotEqual(t, worker.ID(), leaderOf(t, b))
}

// The doctor also tells of tasks that a foreign client holds: if it dies, nobody
// takes them back.
func TestHolders_ForeignIsNamed(t *testing.T) {
	t.Parallel()
	b := setup(t, onlyDefault)
	client := working(t, b.pool)
	row := b.insert(t, goArgs{Wait: true}, &river.InsertOpts{Queue: "go-only"})
	b.wait(t, row.ID, "running")

	findings := examined(t, b, "holders")
	require.Len(t, findings, 1)
	require.Equal(t, doctor.Warning, findings[0].Level)
	require.Contains(t, findings[0].Message, client.ID()+": 1")
}

func elected(c *river.Config) { c.LeaderElectionDisabled = false }
