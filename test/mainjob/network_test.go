package mainjob_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Connections to Postgres break again and again, in the middle of claims and
// settles: every task still runs once, since nobody is away for long.
func TestFlappingNetwork(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := newApp(t, func(c *call) answer {
		work(c, 10*time.Millisecond)
		return answer{status: http.StatusOK}
	})
	cables := []*wire{newWire(t, f.dsn), newWire(t, f.dsn)}
	var sidecars []*sidecar
	for _, cable := range cables {
		sidecars = append(sidecars, startSidecar(t, cable.dsn, a.url, quick().plus(settings{setSlots: "10"})))
	}

	ids := enqueueMany(t, f.db, "load", 1500)
	cuts := 0
	eventually(t, 2*time.Minute, func() bool {
		// One cut in about 100 ms; the pool is back within milliseconds.
		if cable := cables[rand.IntN(2)]; cuts < 60 && rand.IntN(5) == 0 {
			cable.set(wireAway)
			cable.set(wirePass)
			cuts++
		}
		left := countTasks(t, f.db, "status <> 'completed'")
		if left == 0 && cuts <= 10 { // it was over before the network could hurt it
			ids = append(ids, enqueueMany(t, f.db, "load", 200)...)
			return false
		}
		return left == 0
	}, func() string { return fmt.Sprintf("not drained after %d cuts: %v", cuts, statuses(t, f.db, "load")) })

	fenced := 0.0
	for _, s := range sidecars {
		fenced += s.metric(t, metricFences)
	}
	for _, id := range ids {
		calls := a.callsOf(id)
		require.NotEmpty(t, calls)
		if fenced == 0 {
			require.Len(t, calls, 1)
			require.Equal(t, 1, calls[0].attempt)
		}
	}
	require.Zero(t, f.countWorkers("evicted"))
}

// A claim's answer is late, or its sidecar is: by the time it is heard, the
// worker is evicted and the task runs elsewhere. It must not run here as well.
func TestLateClaimIsNotDispatched(t *testing.T) {
	t.Parallel()
	t.Run("stalled network", func(t *testing.T) {
		t.Parallel()
		lateClaim(t, func(*sidecar, *wire) {}, func(_ *sidecar, cable *wire) { cable.set(wirePass) })
	})
	t.Run("stopped sidecar", func(t *testing.T) {
		t.Parallel()
		stop := func(s *sidecar, cable *wire) {
			s.suspend(t)
			cable.set(wirePass) // the answer waits in the sidecar's socket
		}
		lateClaim(t, stop, func(s *sidecar, _ *wire) { s.signal(syscall.SIGCONT) })
	})
}

// lateClaim holds the answer to a claim back until wake. Suspend is called when
// the claim is written.
func lateClaim(t *testing.T, suspend, wake func(*sidecar, *wire)) {
	t.Helper()
	f := newFleet(t)
	f.startLeader()
	f.mark("task", claims)
	hold := newTurnstile(t)
	a := newApp(t, func(c *call) answer {
		hold.pass(c)
		return answer{status: http.StatusOK}
	})
	cable := newWire(t, f.dsn)
	late := startSidecar(t, cable.dsn, a.url, quick())
	for range 3 {
		answer := cable.stallNext(lostAnswer)
		id := enqueue(t, f.db, "task")
		<-answer.done(t)
		before := text(awaitStatus(t, f.db, id, "running", soon).WorkerID)
		suspend(late, cable)
		other := f.start(a, nil)
		f.awaitEvicted(before, soon)
		current := a.await(t, id, 1, soon)
		require.NotEqual(t, before, current.worker())

		wake(late, cable)
		throughout(t, time.Second, func() bool { return len(a.callsOf(id)) == 1 && !current.gone() },
			func() string {
				return fmt.Sprintf("the late claim by %s was dispatched while %s has the task", before, current.lease)
			})
		hold.open(id)
		awaitStatus(t, f.db, id, "completed", soon)
		late.awaitReady(t, soon)
		other.signal(syscall.SIGTERM)
		require.Zero(t, other.awaitExit(t, soon))
	}
}

// The least pool that the configuration allows is enough for all at once.
func TestSmallestPool(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := newApp(t, func(c *call) answer {
		switch c.kind {
		case "endless":
			<-c.ctx.Done()
		case "fails":
			return answer{status: http.StatusInternalServerError}
		default:
			work(c, 5*time.Millisecond)
		}
		return answer{status: http.StatusOK}
	})
	s := f.start(a, settings{setPool: "4", setSlots: "50"})
	for range 5 {
		enqueueMany(t, f.db, "load", 100)
		endless := enqueue(t, f.db, "endless")
		a.await(t, endless, 1, soon)
		failing := enqueue(t, f.db, "fails", with("max_attempts", 3))
		cancelTask(t, f.db, endless)
		awaitStatus(t, f.db, endless, "cancelled", soon)
		awaitStatus(t, f.db, failing, "discarded", soon)
	}
	awaitDrained(t, f.db, "load", soon)
	require.Zero(t, s.metric(t, metricFences))
}

// The network stalls, and delivers after an eviction what a sidecar said before
// it: a settle, which must be refused, and a claim, which must not keep a task
// from those that live.
func TestStalledNetworkDeliversTooLate(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.startLeader()
	first, second := newTurnstile(t), newTurnstile(t)
	a := newApp(t, nil)
	a.handle = func(c *call) answer {
		switch {
		case c.kind != "held":
		case len(a.callsOf(c.id)) == 1:
			first.pass(c)
			return answer{status: http.StatusOK, body: `{"from": "the stalled one"}`}
		default:
			second.pass(c)
		}
		return answer{status: http.StatusOK, body: `{"from": "the other"}`}
	}
	cable := newWire(t, f.dsn)
	stalled := startSidecar(t, cable.dsn, a.url, quick().plus(settings{setQueues: "shared,solo"}))
	for range 4 {
		id := enqueue(t, f.db, "held", with("queue", "shared"))
		c := a.await(t, id, 1, soon)
		other := f.start(a, settings{setQueues: "shared"})

		cable.set(wireStalled)
		first.open(id)
		awaitEnd(t, c)
		var solo []int64
		for range 5 {
			solo = append(solo, enqueue(t, f.db, "solo", with("queue", "solo")))
		}
		f.awaitEvicted(c.worker(), soon)
		rerun := a.await(t, id, 2, soon)
		cable.set(wirePass)

		for _, id := range solo {
			awaitStatus(t, f.db, id, "completed", soon)
			require.Len(t, a.callsOf(id), 1)
		}
		throughout(t, 300*time.Millisecond, func() bool {
			k := readTask(t, f.db, id)
			return k.Status == "running" && text(k.WorkerID) == rerun.worker() && !rerun.gone()
		}, func() string { return "the late settle touched the second attempt: " + readTask(t, f.db, id).String() })
		second.open(id)
		require.JSONEq(t, `{"from": "the other"}`, string(awaitStatus(t, f.db, id, "completed", soon).Output))

		other.signal(syscall.SIGTERM)
		require.Zero(t, other.awaitExit(t, soon))
		stalled.awaitReady(t, soon)
	}
}
