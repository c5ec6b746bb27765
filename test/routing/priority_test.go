package routing_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/fleettest"
)

// Priority 1 goes before 4 over all queues of a sidecar, not only within one.
func TestPriorityHoldsOverQueues(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	hold := newGate(t)
	a := newApp(t, func(c *call) reply {
		if c.kind == "blocks" {
			hold.pass(c)
		}
		return done
	})
	s := f.start(a, fleettest.Settings{fleettest.SetSlots: "1", fleettest.SetLabels: "zone=a"})
	f.enqueue("blocks", queue("first"))
	a.awaitInFlight(t, "first", 1)
	priorities := make(map[int64]int)
	for range 3 {
		for _, p := range []int{4, 2, 3, 1} {
			for _, name := range []string{"a", "b", "c", "zzz"} {
				priorities[f.enqueue("waits", queue(name), priority(p))] = p
			}
			priorities[f.enqueue("waits", queue("a"), priority(p), selectorOf("zone", "a"))] = p
		}
	}
	// They all count as due before the next claim.
	f.awaitTrue(fleettest.Soon, "not all available", "SELECT count(*) = 60 FROM sched.task WHERE kind = 'waits' AND status = 'available'")
	f.awaitServed(s, list[string](f, "SELECT DISTINCT queue FROM sched.river_job WHERE kind = 'waits'"))
	fleettest.Throughout(t, time.Second, func() bool { return a.count("") == 1 }, func() string { return "more than its slot" })
	hold.open()
	f.awaitDrained("waits", fleettest.Soon)
	var order []int
	for _, c := range a.all()[1:] {
		order = append(order, priorities[c.id])
	}
	require.Len(t, order, len(priorities))
	require.True(t, slices.IsSorted(order), "priorities in the order of their starts: %v", order)
}

// awaitServed waits until a sidecar knows that it serves these queues.
func (f *fleet) awaitServed(s *fleettest.Sidecar, queues []string) {
	f.t.Helper()
	var status struct{ Queues []string }
	fleettest.Eventually(f.t, fleettest.Soon, func() bool {
		_, body := s.Get(f.t, "/status")
		require.NoError(f.t, json.Unmarshal([]byte(body), &status), body)
		return !slices.ContainsFunc(queues, func(name string) bool { return !slices.Contains(status.Queues, name) })
	}, func() string { return fmt.Sprintf("it serves %v, not all of %v", status.Queues, queues) })
}

// stream keeps about forty tasks of priority 1 waiting in several queues, of which
// one sidecar with one slot runs 20 a second, until stop says so or too many have
// been enqueued. It tells whether stop did. Forty last for two seconds, in which
// this process may not get to run.
func (f *fleet) stream(most int, stop func() bool) bool {
	f.t.Helper()
	for n := 0; n < most; n += 10 {
		for _, name := range []string{"one", "two"} {
			f.enqueueMany("urgent", name, 5)
		}
		fleettest.Eventually(f.t, fleettest.Soon, func() bool {
			return stop() || one[int](f, "SELECT count(*)::int FROM sched.river_job WHERE kind = 'urgent' AND state = 'available'") < 45
		}, func() string { return "the stream stands still: " + f.dump() })
		if stop() {
			return true
		}
	}
	return false
}

// With ageing, a task of priority 4 doesn't starve under a stream of 1s; without,
// it does. Both over queues and within one.
func TestAgeingEndsStarvation(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"one", "elsewhere"} {
		t.Run("in "+where, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			f.set("priority_ageing_seconds", 0)
			a := newApp(t, func(c *call) reply {
				work(c, 50*time.Millisecond)
				return done
			})
			f.start(a, fleettest.Settings{fleettest.SetSlots: "1"})
			f.awaitLed()
			f.enqueueMany("urgent", "one", 40)
			patient := f.enqueue("patient", queue(where), priority(4))
			started := func() bool { return a.ran(patient) }
			require.False(t, f.stream(80, started), "without ageing a 1 always goes first")

			// Three steps of a second, which have passed by now.
			f.set("priority_ageing_seconds", 1)
			require.True(t, f.stream(400, started), "starved in spite of ageing: %s", f.dump())
			require.Positive(t, one[int](f, "SELECT count(*)::int FROM sched.river_job WHERE kind = 'urgent' AND state = 'available'"),
				"no 1 was waiting: this shows nothing")
		})
	}
}
