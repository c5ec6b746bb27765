package routing_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/fleettest"
)

// canaries is a fleet with a stable worker and a canary.
type canaries struct {
	*fleet
	stable, canary *app
	process        *fleettest.Sidecar // the canary's
	canaryFails    atomic.Bool
	stop           func()
}

func newCanaries(t *testing.T) *canaries {
	t.Helper()
	c := &canaries{fleet: newFleet(t)}
	c.startLeader()
	c.stable = newApp(t, nil)
	c.canary = newApp(t, func(*call) reply {
		if c.canaryFails.Load() {
			return reply{status: http.StatusBadRequest}
		}
		return done
	})
	c.start(c.stable, nil)
	c.process = c.startCanary()
	return c
}

func (c *canaries) startCanary() *fleettest.Sidecar {
	c.t.Helper()
	return c.start(c.canary, fleettest.Settings{fleettest.SetLabels: "track=canary"})
}

// share sets the canary's share of a queue, held there, and waits until the leader
// has seen a canary worker for it.
func (c *canaries) share(queue string, percent int) {
	c.t.Helper()
	c.sched("canary", "set", queue, fmt.Sprint(percent))
	require.Equal(c.t, "held", one[string](c.fleet, "SELECT state FROM sched.canary WHERE queue = $1", queue))
	c.awaitTrue(fleettest.Soon, "no canary worker is assigned", "SELECT workers = 1 FROM sched.canary WHERE queue = $1", queue)
}

// The share of a queue's tasks that goes to the canary is told by their ids, and
// is exact: the canary gets those and no others.
func TestCanaryGetsItsShareByID(t *testing.T) {
	t.Parallel()
	c := newCanaries(t)
	c.awaitStatus(c.enqueue("warm-up", queue("work")), "completed")
	c.share("work", 30)
	fleettest.Eventually(t, fleettest.Soon, func() bool { // once every sidecar has read it
		ids := c.enqueueMany("load", "work", 500)
		c.awaitDrained("load", fleettest.Soon)
		want := make(map[int64]bool)
		for _, id := range list[int64](c.fleet, "SELECT id FROM unnest($1::bigint[]) AS id WHERE sched.canary_share(id) < 30", ids) {
			want[id] = true
		}
		require.InDelta(t, 150, len(want), 50, "about 30 %%")
		return !slices.ContainsFunc(ids, func(id int64) bool { return want[id] != c.canary.ran(id) })
	}, func() string { return "others than its share went to the canary" })
	// Another queue has no canary: its tasks are the stable worker's.
	c.awaitStatus(c.enqueue("warm-up", queue("elsewhere")), "completed")
	fleettest.Eventually(t, fleettest.Soon, func() bool { // once both know who is assigned
		before := c.canary.count("other")
		c.enqueueMany("other", "elsewhere", 50)
		c.awaitDrained("other", fleettest.Soon)
		return c.canary.count("other") == before
	}, func() string { return "the canary gets tasks of a queue that has none" })
}

// Without a canary alive its tasks go to the stable workers at once.
func TestCanaryThatDiesHandsOver(t *testing.T) {
	t.Parallel()
	c := newCanaries(t)
	c.awaitStatus(c.enqueue("warm-up", queue("work")), "completed")
	c.share("work", 100)
	fleettest.Eventually(t, fleettest.Soon, func() bool { // once every sidecar has read it
		before := c.canary.count("load")
		c.enqueueMany("load", "work", 20)
		c.awaitDrained("load", fleettest.Soon)
		return c.canary.count("load") == before+20
	}, func() string { return "at 100 % not all are the canary's" })

	c.process.Kill()
	c.enqueueMany("orphan", "work", 20)
	c.awaitDrained("orphan", fleettest.Soon)
	require.Equal(t, 20, c.stable.count("orphan"))
	c.awaitTrue(fleettest.Soon, "the canary counts as alive", "SELECT workers = 0 FROM sched.canary WHERE queue = 'work'")

	c.process = c.startCanary()
	c.awaitTrue(fleettest.Soon, "the canary isn't seen again", "SELECT workers = 1 FROM sched.canary WHERE queue = 'work'")
	fleettest.Eventually(t, fleettest.Soon, func() bool {
		c.awaitStatus(c.enqueue("again", queue("work")), "completed")
		return c.canary.count("again") > 0
	}, func() string { return "the canary gets nothing any more" })
}

// feed enqueues tasks into the queue all the time.
func (c *canaries) feed() {
	c.t.Helper()
	conn, err := pgx.Connect(c.t.Context(), c.dsn)
	require.NoError(c.t, err)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			if _, err := conn.Exec(c.t.Context(), `SELECT sched.enqueue_many('[{"kind": "load", "queue": "work"}, {"kind": "load", "queue": "work"}]')`); err != nil {
				return
			}
		}
	}()
	var stopped atomic.Bool
	c.stop = func() {
		if stopped.CompareAndSwap(false, true) {
			close(done)
			<-ended
			_ = conn.Close(c.t.Context())
		}
	}
	c.t.Cleanup(c.stop)
}

// A good canary rises by itself through its steps to all of the queue; a bad one
// goes back to nothing. Each step is a decision.
func TestCanaryRisesAndRollsBack(t *testing.T) {
	t.Parallel()
	c := newCanaries(t)
	c.awaitStatus(c.enqueue("warm-up", queue("work")), "completed")
	c.feed()
	// Latency and cpu of a shared machine are not what this test is about.
	c.sched("canary", "start", "work", "--steps", "20,60,100", "--hold", "2s", "--max-p95", "1m", "--max-cpu-points", "100")
	c.awaitTrue(2*fleettest.Soon, "it doesn't rise to the top", "SELECT state = 'full' AND percent = 100 FROM sched.canary WHERE queue = 'work'")
	c.awaitTrue(fleettest.Soon, "a step isn't in the decisions", "SELECT count(*) >= 3 FROM sched.decision WHERE what = 'canary' AND subject = 'work' AND to_value <> ''")

	// Again, and now it fails.
	c.sched("canary", "start", "work", "--steps", "50,100", "--hold", "1m", "--max-p95", "1m", "--max-cpu-points", "100")
	c.canaryFails.Store(true)
	c.awaitTrue(2*fleettest.Soon, "it isn't rolled back", "SELECT state = 'rolled_back' AND percent = 0 FROM sched.canary WHERE queue = 'work'")
	c.awaitTrue(fleettest.Soon, "the rollback isn't in the decisions", "SELECT EXISTS (SELECT FROM sched.decision WHERE what = 'canary' AND subject = 'work' AND (reason LIKE '%error%' OR reason LIKE '%fail%') AND signals <> '{}')")
	c.stop()
	c.awaitTrue(fleettest.Soon, "not drained", "SELECT NOT EXISTS (SELECT FROM sched.task WHERE status IN ('available', 'running'))")
	settled := time.NewTimer(5 * time.Second)
	defer settled.Stop()
	<-settled.C
	n := c.canary.count("load")
	c.enqueueMany("after", "work", 20)
	c.awaitDrained("after", fleettest.Soon)
	require.Equal(t, n, c.canary.count("load"))
	require.Zero(t, c.canary.count("after"), "rolled back: the stable worker runs it all")
	require.Contains(t, c.sched("canary"), "rolled")
}
