package mainjob_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/fleettest"
)

// During a deploy, old apps answer 404 for a kind that new ones have.
func TestUnknownKindDuringADeploy(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	old := newApp(t, func(c *call) answer {
		if c.kind == "new.kind" {
			return answer{status: http.StatusNotFound}
		}
		return answer{status: http.StatusOK}
	})
	before := f.start(old, nil)

	// Only old apps: nothing is lost, nothing spent, and the task can be seen.
	ids := enqueueMany(t, f.db, "new.kind", 20)
	eventually(t, soon, func() bool { return len(old.callsOf(0)) > 0 }, func() string { return "the old app never heard of the kind" })
	awaitStatus(t, f.db, enqueue(t, f.db, "old.kind"), "completed", soon)
	eventually(t, soon, func() bool {
		return countTasks(t, f.db, "kind = 'new.kind' AND status = 'available' AND attempt = 0") == len(ids)
	},
		func() string { return "waiting tasks of the new kind: not all available and unspent" })
	require.Positive(t, before.metric(t, metricSkippedKinds), "visible in the metrics")
	asked := len(old.callsOf(0))
	// The pauses double from a second on: two more questions fit in here.
	throughout(t, 3*time.Second, func() bool { return len(old.callsOf(0)) <= asked+2*len(ids) },
		func() string { return "the sidecar keeps asking an app that lacks the kind" })

	// The new app comes.
	current := newApp(t, nil)
	f.start(current, nil)
	awaitDrained(t, f.db, "new.kind", soon)
	for _, id := range ids {
		require.Equal(t, 1, readTask(t, f.db, id).Attempt)
		require.Len(t, current.callsOf(id), 1)
		require.Equal(t, 1, current.callsOf(id)[0].attempt)
		require.Nil(t, readTask(t, f.db, id).Error)
	}
}

// The app beside a sidecar is replaced in place: the sidecar asks again.
func TestUnknownKindIsAskedForAgain(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	var deployed atomic.Bool
	a := newApp(t, func(*call) answer {
		if !deployed.Load() {
			return answer{status: http.StatusNotFound}
		}
		return answer{status: http.StatusOK}
	})
	f.start(a, nil)
	id := enqueue(t, f.db, "new.kind", with("max_attempts", 1))
	a.await(t, id, 1, soon)
	deployed.Store(true)
	k := awaitStatus(t, f.db, id, "completed", soon)
	require.Equal(t, 1, k.Attempt)
}

// An app that is down costs no attempts: its sidecar claims nothing.
func TestAppDownPausesClaims(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	address := fleettest.FreeAddress(t)
	s := launchSidecar(t, f.dsn, "http://"+address, quick())
	ids := enqueueMany(t, f.db, "load", 20)
	throughout(t, 2*time.Second, func() bool { return countTasks(t, f.db, "status = 'available' AND attempt = 0") == len(ids) },
		func() string { return "claimed for an app that isn't there" })
	status, _ := s.get(t, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, status)

	startAppProcess(t, f.dsn, address)
	awaitDrained(t, f.db, "load", soon)
	s.awaitReady(t, soon)
	f.requireEffectsOnce(ids)
	require.Zero(t, countTasks(t, f.db, "attempt <> 1"))
}
