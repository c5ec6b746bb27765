//go:build verify

package routing_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/fleettest"
)

// Flow limits are exact over the fleet: within 5 % over 10 s with four sidecars,
// once they are warm.
func TestVerifyRateLimitsAreExact(t *testing.T) {
	t.Parallel()
	const rate, tolerance = 150, 0.05
	for _, scope := range []string{"queue", "kind"} {
		t.Run(scope, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			if scope == "queue" {
				f.configure("limited", fmt.Sprintf("rate = %d", rate))
			} else {
				f.exec("INSERT INTO sched.kind (kind, rate) VALUES ('load', $1)", rate)
			}
			f.startLeader()
			a := newApp(t, nil)
			for range 4 {
				f.start(a, nil)
			}
			f.awaitLed()
			f.enqueueMany("load", "limited", 60*rate)
			const warm = 31 * time.Second
			f.awaitTrue(90*time.Second, "no 45 s of it", "SELECT min(attempted_at) < clock_timestamp() - interval '45 seconds' FROM sched.river_job WHERE kind = 'load'")
			first := f.firstStart("load")
			n := f.started("load", first.Add(warm), 10*time.Second)
			t.Logf("%s: %d in 10 s, %.1f %% off", scope, n, 100*math.Abs(float64(n)/(10*rate)-1))
			require.InDelta(t, 10*rate, n, tolerance*10*rate)
			workers := list[int](f, "SELECT count(*)::int FROM sched.river_job WHERE kind = 'load' AND attempted_at IS NOT NULL GROUP BY attempted_by[1]")
			require.Len(t, workers, 4, "all four take part")
			require.True(t, one[bool](f, "SELECT EXISTS (SELECT FROM sched.river_job WHERE kind = 'load' AND state = 'available')"), "the backlog ran out")
		})
	}
}

// A queue that is new, and a worker that joins, are assigned within a second: from
// the start of the transaction that inserted the first task, from the registration.
func TestVerifyAssignedWithinASecond(t *testing.T) {
	t.Parallel()
	const promised = 1000 // ms
	f := newFleet(t)
	f.startLeader()
	a := newApp(t, nil)
	f.start(a, nil)
	f.start(a, nil)
	f.awaitLed()
	late := func(what, query string, args ...any) {
		t.Helper()
		ms := one[float64](f, query, args...)
		t.Logf("%s: %.0f ms", what, ms)
		require.Less(t, ms, float64(promised), what)
	}
	for i := range 10 {
		name := fmt.Sprintf("new-%d", i)
		id := f.enqueue("task", queue(name))
		f.awaitTrue(fleettest.Soon, "not assigned", "SELECT count(*) = 2 FROM sched.assignment WHERE queue = $1", name)
		late(name, `SELECT extract(epoch FROM max(a.updated_at) - t.created_at)::float8 * 1000 FROM sched.assignment a, sched.river_job t
			WHERE a.queue = $1 AND t.id = $2 GROUP BY t.created_at`, name, id)
	}
	for range 3 {
		joined := f.start(a, nil).Worker(t, f.db)
		f.awaitTrue(fleettest.Soon, "not assigned", "SELECT count(*) >= 10 FROM sched.assignment WHERE worker_id = $1", joined)
		late(joined, `SELECT extract(epoch FROM max(a.updated_at) - w.started_at)::float8 * 1000 FROM sched.assignment a JOIN sched.worker w ON w.id = a.worker_id
			WHERE w.id = $1 GROUP BY w.started_at`, joined)
	}
}

// The whole of it with the timing that ships: a killed sidecar under max_running.
func TestVerifyMaxRunningThroughAnEviction(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	const limit = 3
	f.configure("tight", fmt.Sprintf("max_running = %d", limit))
	a := newApp(t, func(c *call) reply {
		work(c, 100*time.Millisecond)
		return done
	})
	f.startLeader()
	shipped := func() *fleettest.Sidecar { return fleettest.Start(t, programs.Sidecar, f.dsn, a.url, nil) }
	victim := shipped()
	shipped()
	counted := f.watchRunning("tight")
	f.enqueueMany("load", "tight", 1500)
	fleettest.Eventually(t, time.Minute, func() bool { return a.count("load") > 20 }, f.dump)
	victim.Kill()
	f.awaitDrained("load", 3*time.Minute)
	require.LessOrEqual(t, counted.stop(), limit)
	require.LessOrEqual(t, a.mostRunning("tight"), limit)
}
