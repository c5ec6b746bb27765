package routing_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/fleettest"
)

// started counts the tasks of a kind whose first attempt began in a window of the
// database's clock.
func (f *fleet) started(kind string, from time.Time, length time.Duration) int {
	f.t.Helper()
	return one[int](f, "SELECT count(*)::int FROM sched.river_job WHERE kind = $1 AND attempted_at >= $2 AND attempted_at < $3",
		kind, from, from.Add(length))
}

func (f *fleet) firstStart(kind string) time.Time {
	f.t.Helper()
	return one[time.Time](f, "SELECT min(attempted_at) FROM sched.river_job WHERE kind = $1", kind)
}

// A flow limit holds for all sidecars together, and warms up from a third of the
// rate: what is claimed follows the ramp, never above it.
func TestRateLimitWarmsUp(t *testing.T) {
	t.Parallel()
	for scope, configure := range map[string]func(*fleet){
		"queue": func(f *fleet) { f.configure("limited", "rate = 60, burst = 3") },
		"kind":  func(f *fleet) { f.exec("INSERT INTO sched.kind (kind, rate, burst) VALUES ('load', 60, 3)") },
	} {
		t.Run(scope, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			configure(f)
			f.startLeader()
			a := newApp(t, nil)
			f.start(a, nil)
			f.start(a, nil)
			f.awaitLed()
			f.enqueueMany("load", "limited", 1000)
			f.enqueueMany("free", "other", 200)
			f.awaitDrained("free", fleettest.Soon) // nobody else waits for it
			const window = 8 * time.Second
			f.awaitTrue(fleettest.Soon, "nothing starts", "SELECT min(attempted_at) < clock_timestamp() - interval '8 seconds' FROM sched.river_job WHERE kind = 'load'")
			first := f.firstStart("load")
			n := f.started("load", first, window)
			// 60/s × (1/3 t + 2/3 t²/60) from the first claim on, if that is when it began.
			ramp := 60 * (window.Seconds()/3 + 2.0/3*window.Seconds()*window.Seconds()/60)
			require.LessOrEqual(t, float64(n), 1.05*ramp+3, "above the ramp")
			require.GreaterOrEqual(t, float64(n), 0.3*ramp, "far below the ramp")
			require.Zero(t, one[int64](f, `
				SELECT granted - (SELECT count(*) FROM sched.river_job WHERE kind = 'load' AND attempt > 0) FROM sched.flow WHERE scope = $1 AND name = $2`,
				scope, map[string]string{"queue": "limited", "kind": "load"}[scope]), "what was granted was claimed: nothing is claimed and then refused")
			require.Zero(t, one[int](f, "SELECT count(*)::int FROM sched.flow WHERE tokens < 0"))

			// The limit goes, and the rest runs at once.
			f.exec("UPDATE sched.queue SET rate = NULL WHERE name = 'limited'")
			f.exec("UPDATE sched.kind SET rate = NULL WHERE kind = 'load'")
			f.awaitDrained("load", time.Minute)
			require.Equal(t, 1000, a.count("load"))
		})
	}
}

// A Retry-After from one app pauses that kind in the whole fleet until then, with
// the reason to be seen; other kinds go on.
func TestRetryAfterPausesTheKindEverywhere(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.startLeader()
	var refusals atomic.Int32
	full := newApp(t, func(c *call) reply {
		if c.kind == "mail" && refusals.Add(1) == 1 {
			return reply{status: http.StatusTooManyRequests, retryAfter: "20"}
		}
		return done
	})
	sidecars := []*fleettest.Sidecar{f.start(full, fleettest.Settings{fleettest.SetLabels: "first=yes"}), f.start(newApp(t, nil), nil)}
	f.awaitLed()
	refused := f.enqueue("mail", selectorOf("first", "yes"))
	f.awaitTrue(fleettest.Soon, "not paused", "SELECT EXISTS (SELECT FROM sched.flow WHERE scope = 'kind' AND name = 'mail' AND paused_until > now() AND pause_reason <> '' AND paused_by <> '')")
	until := one[time.Time](f, "SELECT paused_until FROM sched.flow WHERE scope = 'kind' AND name = 'mail'")

	// Everybody hears of it; then these wait for the end of the pause.
	probe := f.enqueue("other", queue("elsewhere"))
	f.awaitStatus(probe, "completed")
	for _, s := range sidecars {
		fleettest.Eventually(t, fleettest.Soon, func() bool {
			_, status := s.Get(t, "/status")
			return strings.Contains(status, "kind mail: paused")
		}, func() string { return "a sidecar hasn't heard of the pause" })
	}
	waits := f.enqueueMany("mail", "elsewhere", 5)
	require.Contains(t, f.sched("explain", itoa(waits[0])), "mail")
	f.awaitStatus(f.enqueue("other", queue("elsewhere")), "completed")
	for _, id := range waits {
		f.awaitStatus(id, "completed")
		require.False(t, one[time.Time](f, "SELECT start_time FROM sched.task WHERE id = $1", id).Before(until.Truncate(time.Millisecond)), "started before %s", until)
	}
	require.Positive(t, one[int](f, "SELECT coalesce(snoozes, 0)::int FROM sched.task WHERE id = $1", refused))
	require.True(t, one[bool](f, "SELECT EXISTS (SELECT FROM sched.decision WHERE what = 'pause' AND subject = 'mail')"))
}

// pause --all stops everything that isn't running, resume --all lets it go on.
func TestPauseAll(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	hold := newGate(t)
	a := newApp(t, func(c *call) reply {
		if c.kind == "long" {
			hold.pass(c)
		}
		return done
	})
	f.start(a, nil)
	f.start(a, nil)
	long := f.enqueue("long", queue("one"))
	a.awaitInFlight(t, "one", 1)
	for _, name := range []string{"one", "two", "three"} {
		f.awaitStatus(f.enqueue("task", queue(name)), "completed")
	}
	f.sched("queues", "pause", "--all")
	var ids []int64
	for _, name := range []string{"one", "two", "three"} {
		ids = append(ids, f.enqueueMany("waits", name, 5)...)
	}
	ran := one[int](f, "SELECT count(*)::int FROM sched.task WHERE id = any($1) AND status <> 'available'", ids)
	require.Zero(t, ran, "the pause holds from the commit on")
	fleettest.Throughout(t, 2*time.Second, func() bool { return a.count("waits") == 0 }, func() string { return "started in spite of the pause" })
	hold.open()
	f.awaitStatus(long, "completed")
	f.sched("queues", "resume", "--all")
	f.awaitDrained("waits", fleettest.Soon)
	require.GreaterOrEqual(t, one[int](f, "SELECT count(*)::int FROM sched.operator_action WHERE action IN ('pause', 'resume')"), 2)
}
