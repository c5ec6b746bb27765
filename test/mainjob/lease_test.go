package mainjob_test

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A sidecar that is stopped past its lease and wakes up with an answer in hand
// must not settle the attempt that another sidecar runs by then.
func TestStoppedSidecarCannotSettle(t *testing.T) {
	t.Parallel()
	late := map[string]answer{
		"complete": {status: http.StatusOK, body: `{"from": "the stopped one"}`},
		"retry":    {status: http.StatusInternalServerError, body: "from the stopped one"},
		"snooze":   {status: http.StatusServiceUnavailable, header: map[string]string{"Retry-After": "3600"}},
		"cancel":   {status: http.StatusGone, body: "from the stopped one"},
	}

	f := newFleet(t)
	f.startLeader()
	first, second := newTurnstile(t), newTurnstile(t)
	a := newApp(t, nil)
	a.allowOverlap() // the stopped sidecar can't hang up
	a.handle = func(c *call) answer {
		if len(a.callsOf(c.id)) == 1 {
			first.pass(c)
			return late[c.kind]
		}
		second.pass(c)
		return answer{status: http.StatusOK, body: `{"from": "the other"}`}
	}
	sidecars := []*sidecar{f.start(a, nil), f.start(a, nil)}

	for round := range 2 {
		for kind := range late {
			t.Logf("round %d: the late answer is %s", round, kind)
			id := enqueue(t, f.db, kind)
			stopped := a.await(t, id, 1, soon)
			owner := f.ownerOf(sidecars, stopped)
			refused := owner.metric(t, metricRefused)

			owner.suspend(t)
			f.awaitEvicted(stopped.worker(), soon)
			rerun := a.await(t, id, 2, soon)
			require.NotEqual(t, stopped.worker(), rerun.worker())

			first.open(id)
			awaitEnd(t, stopped)
			owner.signal(syscall.SIGCONT)
			eventually(t, soon, func() bool { return owner.metric(t, metricRefused) > refused },
				func() string { return "the late settle isn't counted as refused" })

			stillRuns := func() bool {
				k := readTask(t, f.db, id)
				return k.Status == "running" && text(k.WorkerID) == rerun.worker() && !rerun.gone()
			}
			throughout(t, 300*time.Millisecond, stillRuns, func() string {
				return "the late settle touched the second attempt: " + readTask(t, f.db, id).String()
			})

			second.open(id)
			k := awaitStatus(t, f.db, id, "completed", soon)
			require.JSONEq(t, `{"from": "the other"}`, string(k.Output))
			require.Equal(t, 1, k.Lost)
			require.Len(t, a.callsOf(id), 2)
			require.Equal(t, []string{"rescued", "completed"}, outcomes(readAttempts(t, f.db, id)))

			// The woken one finds out, registers anew and works again.
			owner.awaitReady(t, soon)
			eventually(t, soon, func() bool {
				ids := owner.workers(t, f.db)
				return f.workerState(ids[len(ids)-1]) == "active"
			}, func() string {
				return fmt.Sprintf("the woken sidecar has no new registration: %v", owner.workers(t, f.db))
			})
		}
	}
}

// A sidecar that can't reach Postgres gives its calls up before the leader
// gives its tasks to another.
func TestPartitionedSidecarGivesUpBeforeItsEviction(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]wireMode{"connections refused": wireAway, "packets swallowed": wireFrozen} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			f.startLeader()
			hold := newGate(t)
			a := newApp(t, nil)
			a.handle = func(c *call) answer {
				if len(a.callsOf(c.id)) == 1 && !hold.pass(c) {
					return answer{status: http.StatusOK, body: `{"from": "nobody listens any more"}`}
				}
				return answer{status: http.StatusOK}
			}
			cable := newWire(t, f.dsn)
			apart := startSidecar(t, cable.dsn, a.url, quick())
			id := enqueue(t, f.db, "task")
			before := a.await(t, id, 1, soon)

			f.start(a, nil)
			cable.set(mode)
			after := a.await(t, id, 2, soon)
			require.True(t, before.gone(), "the first call is still on when the second begins")
			require.NotEqual(t, before.worker(), after.worker())
			require.Equal(t, "evicted", f.workerState(before.worker()))
			k := awaitStatus(t, f.db, id, "completed", soon)
			require.Equal(t, 1, k.Lost)

			cable.set(wirePass)
			apart.awaitReady(t, soon)
			require.NotEqual(t, before.worker(), apart.workers(t, f.db)[len(apart.workers(t, f.db))-1], "an evicted id isn't used again")
			throughout(t, time.Second, func() bool { return readTask(t, f.db, id).Status == "completed" && len(a.callsOf(id)) == 2 },
				func() string { return readTask(t, f.db, id).String() })
		})
	}
}

// ownerOf finds the sidecar that made a call.
func (f *fleet) ownerOf(sidecars []*sidecar, c *call) *sidecar {
	f.t.Helper()
	for _, s := range sidecars {
		for _, worker := range s.workers(f.t, f.db) {
			if worker == c.worker() {
				return s
			}
		}
	}
	require.FailNowf(f.t, "no owner", "no sidecar has the lease %q", c.lease)
	return nil
}
