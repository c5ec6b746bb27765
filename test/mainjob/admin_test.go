package mainjob_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAdminListener(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := newApp(t, nil)
	cable := newWire(t, f.dsn)
	s := startSidecar(t, cable.dsn, a.url, quick())
	awaitStatus(t, f.db, enqueue(t, f.db, "task"), "completed", soon)

	status, _ := s.get(t, "/livez")
	require.Equal(t, http.StatusOK, status)
	status, body := s.get(t, "/metrics")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "\nsched_", "sched's own metrics")
	require.Contains(t, body, "\ngo_goroutines ", "the runtime's")
	status, _ = s.get(t, "/nothing-here")
	require.Equal(t, http.StatusNotFound, status)

	cable.set(wireAway)
	s.awaitReadyz(t, http.StatusServiceUnavailable, soon)
	status, body = s.get(t, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, strings.ToLower(body), "postgres", "why it isn't ready")
	status, _ = s.get(t, "/livez")
	require.Equal(t, http.StatusOK, status)
	cable.set(wirePass)
	s.awaitReady(t, soon)
}

// What a fleet did is in its metrics: one sidecar at work leaves as many
// goroutines as it had before.
func TestNoGoroutinesLeak(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := newApp(t, func(c *call) answer {
		switch c.kind {
		case "hangs":
			<-c.ctx.Done()
		case "fails":
			return answer{status: http.StatusInternalServerError}
		case "accepted":
			return answer{status: http.StatusAccepted}
		}
		return answer{status: http.StatusOK}
	})
	s := f.start(a, settings{setSlots: "50"})
	load := func() {
		t.Helper()
		enqueueMany(t, f.db, "ok", 300)
		for range 20 {
			enqueue(t, f.db, "hangs", with("timeout", 200*time.Millisecond), with("max_attempts", 1))
			enqueue(t, f.db, "fails", with("max_attempts", 2))
			enqueue(t, f.db, "accepted", with("timeout", 300*time.Millisecond), with("max_attempts", 1))
		}
		eventually(t, soon, func() bool { return countTasks(t, f.db, "end_time IS NULL") == 0 },
			func() string { return "the load doesn't end" })
	}
	load() // connections and pools are up
	calm := func() float64 {
		// Idle connections are kept for a while; the least number counts.
		least := s.metric(t, "go_goroutines")
		throughout(t, 2*time.Second, func() bool { least = min(least, s.metric(t, "go_goroutines")); return true }, nil)
		return least
	}
	before := calm()
	for range 3 {
		load()
	}
	after := calm()
	require.LessOrEqual(t, after, before+120, "goroutines before %v, after %v; the load made hundreds", before, after)
}

// The running tasks that a sidecar shows are those that its app has.
func TestRunningTasksAreShown(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	hold := newGate(t)
	a := newApp(t, func(c *call) answer {
		hold.pass(c)
		return answer{status: http.StatusOK}
	})
	s := f.start(a, settings{setSlots: "10", setPoll: "10ms"})
	for _, id := range enqueueMany(t, f.db, "held", 3) {
		a.await(t, id, 1, soon)
	}
	var shown float64
	is := func(want float64) func() bool {
		return func() bool { shown = s.metric(t, metricRunning); return shown == want }
	}
	explain := func() string { return fmt.Sprintf("%s is %v", metricRunning, shown) }
	eventually(t, soon, is(3), explain)
	throughout(t, 2*time.Second, is(3), explain)
	hold.open()
	eventually(t, soon, is(0), explain)
	throughout(t, time.Second, is(0), explain)
}
