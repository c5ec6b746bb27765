package mainjob_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/fleettest"
)

// Whoever is killed under load: every task completes, and has its effect once.

func TestKilledSidecarsLoseNothing(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := newApp(t, nil)
	a.handle = func(c *call) answer {
		work(c, 20*time.Millisecond)
		return f.effectOnce(c)
	}
	slots := settings{setSlots: "20"}
	sidecars := []*sidecar{f.start(a, slots), f.start(a, slots), f.start(a, slots)}

	// Nobody is spared, so the leader is among the victims.
	var ids []int64
	for i, victim := range sidecars {
		victims := victim.workers(t, f.db)
		ids = append(ids, enqueueMany(t, f.db, "load", 400)...)
		awaitBusy(t, a, victims)
		victim.kill()
		sidecars[i] = f.start(a, slots)
	}
	awaitDrained(t, f.db, "load", leaderless+soon)
	f.requireEffectsOnce(ids)
	require.Positive(t, countTasks(t, f.db, "lost > 0"), "no task was running when its sidecar died: this shows nothing")
}

func TestKilledAppsLoseNothing(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	p := startAppProcess(t, f.dsn, fleettest.FreeAddress(t))
	s := startSidecar(t, f.dsn, "http://"+p.address, quick().plus(settings{setSlots: "20"}))

	var ids []int64
	for range 4 {
		before := f.countEffects()
		ids = append(ids, enqueueMany(t, f.db, "load", 300)...)
		f.awaitEffects(before + 50)
		p.kill()
		p = startAppProcess(t, f.dsn, p.address)
	}
	awaitDrained(t, f.db, "load", 60*time.Second)
	f.requireEffectsOnce(ids)
	require.Len(t, s.workers(t, f.db), 1, "an app's death isn't its sidecar's")
	require.Zero(t, f.countWorkers("evicted"))
}

func TestKilledPostgresLosesNothing(t *testing.T) {
	t.Parallel()
	f, server := newPrivateFleet(t)
	a := newApp(t, nil)
	a.handle = func(c *call) answer {
		work(c, 20*time.Millisecond)
		return f.effectOnce(c)
	}
	slots := settings{setSlots: "20"}
	one, two := f.start(a, slots), f.start(a, slots)

	var ids []int64
	for range 3 {
		before := f.countEffects()
		ids = append(ids, enqueueMany(t, f.db, "load", 400)...)
		f.awaitEffects(before + 100)
		require.NoError(t, server.Kill())
		require.NoError(t, server.Restart(t.Context()))
		f.awaitDatabase()
	}
	awaitDrained(t, f.db, "load", 60*time.Second)
	f.requireEffectsOnce(ids)
	require.Zero(t, f.countWorkers("evicted"), "Postgres died, not a worker")
	one.awaitReady(t, soon)
	two.awaitReady(t, soon)
}

// awaitBusy waits until one of these workers has calls in the app's handlers.
func awaitBusy(t *testing.T, a *app, workers []string) {
	t.Helper()
	eventually(t, soon, func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, c := range a.running {
			for _, worker := range workers {
				if c.worker() == worker {
					return true
				}
			}
		}
		return false
	}, func() string { return fmt.Sprintf("workers %v have nothing to do", workers) })
}

func (f *fleet) countEffects() int {
	f.t.Helper()
	var n int
	require.NoError(f.t, f.db.QueryRow(f.t.Context(), "SELECT count(*) FROM effect").Scan(&n))
	return n
}

func (f *fleet) awaitEffects(n int) {
	f.t.Helper()
	eventually(f.t, soon, func() bool { return f.countEffects() >= n },
		func() string {
			return fmt.Sprintf("%d effects, not %d: %v", f.countEffects(), n, statuses(f.t, f.db, "load"))
		})
}
