package routing_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/fleettest"
)

// weights reads who serves a queue, and how much of it.
func (f *fleet) weights(queue string) map[string]int {
	f.t.Helper()
	rows, err := f.db.Query(f.t.Context(), "SELECT worker_id, weight FROM sched.assignment WHERE queue = $1", queue)
	require.NoError(f.t, err)
	weights := make(map[string]int)
	var worker string
	var weight int
	_, err = pgx.ForEachRow(rows, []any{&worker, &weight}, func() error { weights[worker] = weight; return nil })
	require.NoError(f.t, err)
	return weights
}

func (f *fleet) awaitWeights(queue string, want map[string]int) {
	f.t.Helper()
	fleettest.Eventually(f.t, fleettest.Soon, func() bool { return fmt.Sprint(f.weights(queue)) == fmt.Sprint(want) },
		func() string {
			return fmt.Sprintf("assignments of %s are %v, not %v: %s", queue, f.weights(queue), want, f.dump())
		})
}

// The assignments follow the fleet: first use, another strategy, a worker that
// joins, one that leaves and one that dies; and running work doesn't notice.
func TestAssignmentsFollowTheFleet(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.startLeader()
	hold := newGate(t)
	a := newApp(t, func(c *call) reply {
		if c.kind == "long" {
			hold.pass(c)
		}
		return done
	})
	small := f.start(a, fleettest.Settings{fleettest.SetSlots: "10"})
	large := f.start(a, fleettest.Settings{fleettest.SetSlots: "20"})
	long := f.enqueue("long", queue("work"))
	a.awaitInFlight(t, "work", 1)
	one, two := small.Worker(t, f.db), large.Worker(t, f.db)
	f.awaitWeights("work", map[string]int{one: 10, two: 20})

	f.exec("UPDATE sched.queue SET strategy = 'round_robin' WHERE name = 'work'")
	f.awaitWeights("work", map[string]int{one: 100, two: 100})
	f.exec("UPDATE sched.queue SET strategy = 'least_loaded' WHERE name = 'work'")
	f.awaitWeights("work", map[string]int{one: 10, two: 20})

	joined := f.start(a, fleettest.Settings{fleettest.SetSlots: "5"})
	three := joined.Worker(t, f.db)
	f.awaitWeights("work", map[string]int{one: 10, two: 20, three: 5})
	require.Contains(t, f.sched("assignments", "--queue", "work"), three)
	joined.Signal(syscall.SIGTERM)
	require.Zero(t, joined.AwaitExit(t, fleettest.Soon))
	f.awaitWeights("work", map[string]int{one: 10, two: 20})

	// The busy one keeps its task all the while; whichever is idle dies.
	busy, idle, left := small, large, map[string]int{one: 10}
	if a.all()[0].worker == two {
		busy, idle, left = large, small, map[string]int{two: 20}
	}
	idle.Kill()
	f.awaitWeights("work", left)
	require.Equal(t, "running", f.status(long))
	hold.open()
	f.awaitStatus(long, "completed")
	require.Len(t, a.all(), 1, "the long task ran once, undisturbed")
	require.Len(t, busy.Workers(t, f.db), 1)
}

// Labels change in the table, and the sidecar lives by them at once, without
// dropping what it runs.
func TestLabelsChangeLive(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.startLeader()
	hold := newGate(t)
	a := newApp(t, func(c *call) reply {
		if c.kind == "long" {
			hold.pass(c)
		}
		return done
	})
	s := f.start(a, fleettest.Settings{fleettest.SetLabels: "zone=a"})
	long := f.enqueue("long", selectorOf("zone", "a"))
	fleettest.Eventually(t, fleettest.Soon, func() bool { return a.count("long") == 1 }, func() string { return "the long task doesn't start" })
	id := f.enqueue("task", selectorOf("zone", "b"))

	f.exec(`UPDATE sched.worker SET labels = labels || '{"zone": "b"}' WHERE id = $1`, s.Worker(t, f.db))
	f.awaitStatus(id, "completed")
	f.awaitTrue(fleettest.Soon, "the old queue is still assigned",
		"SELECT NOT EXISTS (SELECT FROM sched.assignment WHERE queue = sched.queue_name('default', '{\"zone\": \"a\"}', 'any'))")
	lost := f.enqueue("task", selectorOf("zone", "a"))
	fleettest.Throughout(t, 2*time.Second, func() bool { return f.status(lost) == "available" }, func() string { return "served by a label that is gone" })
	require.Equal(t, "running", f.status(long))
	hold.open()
	f.awaitStatus(long, "completed")
	require.Equal(t, 1, a.count("long"))
}

// A draining worker finishes what it has, takes nothing more, and isn't woken.
func TestDrainingWorkerIsLeftAlone(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.startLeader()
	hold := newGate(t)
	leaving := newApp(t, func(c *call) reply {
		if c.kind == "long" {
			hold.pass(c)
		}
		return done
	})
	s := f.start(leaving, nil)
	long := f.enqueue("long", queue("work"))
	leaving.awaitInFlight(t, "work", 1)
	staying := newApp(t, nil)
	other := f.start(staying, nil)
	worker := s.Worker(t, f.db)
	f.awaitTrue(fleettest.Soon, "the other isn't assigned", "SELECT count(*) = 2 FROM sched.assignment WHERE queue = 'work'")

	listener := listen(t, f, "sched.river_insert")
	version := one[int64](f, "SELECT state_version::bigint FROM sched.worker WHERE id = $1", worker)
	f.sched("workers", "drain", worker)
	require.Equal(t, "draining", f.workerState(worker))
	require.Greater(t, one[int64](f, "SELECT state_version::bigint FROM sched.worker WHERE id = $1", worker), version)
	f.awaitWeights("work", map[string]int{other.Worker(t, f.db): 64})
	f.awaitTrue(fleettest.Soon, "it would still be woken", "SELECT NOT coalesce($1 = any(wake), false) FROM sched.queue WHERE name = 'work'", worker)
	s.AwaitReadyz(t, http.StatusServiceUnavailable, fleettest.Soon) // it has heard of it
	listener.drop()

	claims := s.Metric(t, metricClaims)
	for range 20 {
		f.awaitStatus(f.enqueue("quick", queue("work")), "completed")
	}
	require.Equal(t, 20, staying.count("quick"))
	require.Zero(t, leaving.count("quick"))
	require.LessOrEqual(t, s.Metric(t, metricClaims), claims, "a draining worker claims nothing")
	for _, payload := range listener.drop() {
		require.NotContains(t, payload, worker, "a draining worker is woken")
	}
	// Draining is one way: no UPDATE brings it back.
	_, err := f.db.Exec(t.Context(), "UPDATE sched.worker SET state = 'active' WHERE id = $1", worker)
	if err == nil {
		f.awaitStatus(f.enqueue("quick", queue("work")), "completed")
		require.Zero(t, leaving.count("quick"))
	}
	hold.open()
	f.awaitStatus(long, "completed")
	s.Signal(syscall.SIGTERM)
	require.Zero(t, s.AwaitExit(t, fleettest.Soon))
	require.Equal(t, "done", f.workerState(worker))
}

// An eviction zeroes the load and frees the tasks; a new registration of the same
// process starts clean.
func TestEvictionZeroesTheLoad(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.startLeader()
	hold := newGate(t)
	a := newApp(t, func(c *call) reply {
		hold.pass(c)
		return done
	})
	s := f.start(a, fleettest.Settings{fleettest.SetSlots: "5"})
	ids := f.enqueueMany("long", "work", 8)
	a.awaitInFlight(t, "work", 5)
	worker := s.Worker(t, f.db)
	f.awaitTrue(fleettest.Soon, "its load isn't shown", "SELECT running = 5 FROM sched.worker WHERE id = $1", worker)

	s.Signal(syscall.SIGSTOP)
	f.awaitTrue(fleettest.Soon, "not evicted", "SELECT state = 'evicted' FROM sched.worker WHERE id = $1", worker)
	require.Zero(t, one[int](f, "SELECT running FROM sched.worker WHERE id = $1", worker))
	require.Zero(t, f.countRunning("work"))
	require.Equal(t, len(ids), one[int](f, "SELECT count(*)::int FROM sched.task WHERE id = any($1) AND status = 'available'", ids))
	f.awaitTrue(fleettest.Soon, "still assigned", "SELECT NOT EXISTS (SELECT FROM sched.assignment WHERE worker_id = $1)", worker)
	f.awaitTrue(fleettest.Soon, "no decision about it", "SELECT EXISTS (SELECT FROM sched.decision WHERE what = 'evict' AND subject = $1)", worker)

	s.Signal(syscall.SIGCONT)
	fleettest.Eventually(t, fleettest.Soon, func() bool { return len(s.Workers(t, f.db)) == 2 }, func() string { return "it doesn't register anew" })
	again := s.Worker(t, f.db)
	f.awaitTrue(fleettest.Soon, "not back at work", "SELECT state = 'active' AND running BETWEEN 0 AND 5 FROM sched.worker WHERE id = $1", again)
	hold.open()
	f.awaitDrained("long", fleettest.Soon)
	f.awaitTrue(fleettest.Soon, "not idle in the end", "SELECT running = 0 FROM sched.worker WHERE id = $1", again)
	require.Zero(t, one[int](f, "SELECT running FROM sched.worker WHERE id = $1", worker))
	require.Zero(t, one[int](f, "SELECT count(*)::int FROM sched.worker WHERE running < 0 OR running > ceiling"))
}

// Both strategies hand a queue's tasks to everybody who has the labels, in quiet
// times, too: nobody is left out.
func TestQuietWorkIsSpread(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"least_loaded", "round_robin"} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			f.startLeader()
			f.configure("work", "strategy = '"+strategy+"'")
			a := newApp(t, nil)
			for range 3 {
				f.start(a, fleettest.Settings{fleettest.SetSlots: "10"})
			}
			f.awaitTrue(fleettest.Soon, "not assigned", "SELECT workers = 3 AND cardinality(wake) > 0 FROM sched.queue WHERE name = 'work'")
			const tasks = 60
			var counts map[string]int
			fleettest.Eventually(t, 5*fleettest.Soon, func() bool { // once all three know that they are assigned
				before := len(a.all())
				for range tasks {
					f.awaitStatus(f.enqueue("quick", queue("work")), "completed")
				}
				counts = make(map[string]int)
				for _, c := range a.all()[before:] {
					counts[c.worker]++
				}
				// A poll may come first now and then; without routing one worker gets most.
				return len(counts) == 3 && slices.Min(slices.Collect(maps.Values(counts))) > tasks/6
			}, func() string { return fmt.Sprintf("not everybody has a part: %v", counts) })
		})
	}
}

// sched explain tells in words why a task waits and why it ran where it did.
func TestExplainSaysWhy(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.startLeader()
	hold := newGate(t)
	a := newApp(t, func(c *call) reply {
		switch c.kind {
		case "long":
			hold.pass(c)
		case "lacking":
			return reply{status: http.StatusNotFound}
		}
		return done
	})
	s := f.start(a, fleettest.Settings{fleettest.SetSlots: "1", fleettest.SetLabels: "zone=a"})
	ran := f.enqueue("task", queue("work"), selectorOf("zone", "a"))
	f.awaitStatus(ran, "completed")
	require.Contains(t, f.sched("explain", fmt.Sprint(ran)), s.Worker(t, f.db))

	lacking := f.enqueue("lacking", queue("work"))
	f.awaitTrue(fleettest.Soon, "the app isn't asked", "SELECT status = 'available' FROM sched.task WHERE id = $1", lacking)
	later := f.enqueue("task", option{"run_at", time.Now().Add(time.Hour)})
	require.Contains(t, strings.ToLower(f.sched("explain", fmt.Sprint(later))), "scheduled")

	f.enqueue("long", queue("work"))
	a.awaitInFlight(t, "work", 1)
	waits := f.enqueue("task", queue("work"))
	says := func(id int64, parts ...string) {
		t.Helper()
		var out string
		fleettest.Eventually(t, fleettest.Soon, func() bool {
			out = strings.ToLower(f.sched("explain", fmt.Sprint(id)))
			for _, part := range parts {
				if !strings.Contains(out, part) {
					return false
				}
			}
			return true
		}, func() string { return fmt.Sprintf("sched explain doesn't say %q: %s", parts, out) })
	}
	says(waits, "slot")
	f.configure("work", "max_running = 1")
	says(waits, "max_running")
	f.sched("queues", "pause", "work")
	says(waits, "paused")
	f.exec("INSERT INTO sched.flow (scope, name, paused_until, pause_reason) VALUES ('kind', 'task', now() + interval '1 hour', 'the mail server is full')")
	says(waits, "the mail server is full")
}
