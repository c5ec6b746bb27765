package routing_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/fleettest"
)

// census counts the running tasks of a queue all the time.
type census struct {
	stop func() int // and returns the most that it saw
}

func (f *fleet) watchRunning(queue string) *census {
	f.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan int, 1)
	go func() {
		most := 0
		for {
			var n int
			err := f.db.QueryRow(ctx, "SELECT count(*) FROM sched.river_job WHERE queue = $1 AND state = 'running'", queue).Scan(&n)
			if ctx.Err() != nil {
				result <- most
				return
			}
			if err != nil {
				n = 1 << 30 // a census that fails counts nothing
			}
			most = max(most, n)
		}
	}()
	c := &census{stop: func() int {
		cancel()
		most := <-result
		result <- most
		return most
	}}
	f.t.Cleanup(func() { c.stop() })
	return c
}

// max_running is exact over the fleet, while sidecars are killed, evicted and
// started, and it is reached.
func TestMaxRunningIsExact(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.startLeader()
	const limit, deaths, each = 5, 3, 200 // tasks between one death and the next
	f.configure("tight", fmt.Sprintf("max_running = %d", limit))
	a := newApp(t, func(c *call) reply {
		work(c, 60*time.Millisecond)
		return done
	})
	slots := fleettest.Settings{fleettest.SetSlots: "8"}
	sidecars := []*fleettest.Sidecar{f.start(a, slots), f.start(a, slots), f.start(a, slots)}
	f.awaitLed()
	counted := f.watchRunning("tight")
	f.enqueueMany("free", "loose", 60)

	for i := range deaths {
		ran := a.count("load")
		f.enqueueMany("load", "tight", each)
		fleettest.Eventually(t, time.Minute, func() bool { return a.count("load") > ran },
			func() string { return fmt.Sprintf("%d ran before and none since: %s", ran, f.dump()) })
		// The one that is killed must be at work, or its death shows nothing.
		workers := make([]string, len(sidecars))
		for j, s := range sidecars {
			workers[j] = s.Worker(t, f.db)
		}
		at := -1
		fleettest.Eventually(t, fleettest.Soon, func() bool {
			var busiest string
			err := f.db.QueryRow(t.Context(), `SELECT attempted_by[cardinality(attempted_by)] FROM sched.river_job
				WHERE state = 'running' AND queue = 'tight' GROUP BY 1 ORDER BY count(*) DESC LIMIT 1`).Scan(&busiest)
			at = slices.Index(workers, busiest)
			return err == nil && at >= 0
		}, func() string { return "nobody runs anything: " + f.dump() })
		worker := workers[at]
		sidecars[at].Kill()
		if i == 0 { // what the dead one ran still counts, until it's evicted
			f.awaitTrue(fleettest.Soon, "not evicted", "SELECT state = 'evicted' FROM sched.worker WHERE id = $1", worker)
		}
		sidecars[at] = f.start(a, slots)
	}
	f.awaitDrained("load", time.Minute)
	f.awaitDrained("free", fleettest.Soon)
	most := counted.stop()
	require.LessOrEqual(t, most, limit, "as SQL saw it")
	require.LessOrEqual(t, a.mostRunning("tight"), limit, "as the app saw it")
	require.Equal(t, limit, a.mostRunning("tight"), "the limit is reached")
	require.Equal(t, deaths*each, one[int](f, "SELECT count(*)::int FROM sched.task WHERE kind = 'load' AND status = 'completed'"))
	require.Positive(t, one[int](f, "SELECT coalesce(sum(lost), 0)::int FROM sched.task WHERE kind = 'load'"), "nobody died at work: this shows nothing")
}

// max_running moves while tasks run: nothing is interrupted, and nothing starts
// above the new limit.
func TestMaxRunningMovesLive(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.startLeader()
	f.configure("tight", "max_running = 0")
	a := newApp(t, func(c *call) reply {
		work(c, 100*time.Millisecond)
		return done
	})
	f.start(a, nil)
	f.start(a, nil)
	f.awaitLed()
	const tasks = 2000
	f.enqueueMany("load", "tight", tasks)
	fleettest.Throughout(t, 2*time.Second, func() bool { return a.count("load") == 0 }, func() string { return "0 means none" })
	for _, limit := range []int{6, 2, 9, 0} {
		f.sched("queues", "set", "tight", "--max-running", fmt.Sprint(limit))
		fleettest.Eventually(t, fleettest.Soon, func() bool { return f.countRunning("tight") == limit },
			func() string { return fmt.Sprintf("%d run, not %d: %s", f.countRunning("tight"), limit, f.dump()) })
		fleettest.Throughout(t, time.Second, func() bool { return f.countRunning("tight") <= limit },
			func() string { return fmt.Sprintf("%d run, above %d", f.countRunning("tight"), limit) })
	}
	f.exec("UPDATE sched.queue SET max_running = NULL WHERE name = 'tight'")
	f.awaitDrained("load", time.Minute)
	require.Equal(t, tasks, a.count("load"), "nothing was interrupted")
}
