package mainjob_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOutageEvictsNobody(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]wireMode{"connections refused": wireAway, "packets swallowed": wireFrozen} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outage(t, mode, quick(), quickFence, 3*quickEvict)
		})
	}
}

// outage takes Postgres away from two sidecars, the leader among them.
func outage(t *testing.T, mode wireMode, set settings, fence, length time.Duration) {
	f := newFleet(t)
	answered, held := newTurnstile(t), newTurnstile(t)
	a := newApp(t, nil)
	a.handle = func(c *call) answer {
		switch c.kind {
		case "answered":
			answered.pass(c)
			return answer{status: http.StatusOK, body: `{"answered": "while Postgres was away"}`}
		case "held":
			if len(a.callsOf(c.id)) == 1 {
				held.pass(c)
			}
		}
		return answer{status: http.StatusOK}
	}
	cables := []*wire{newWire(t, f.dsn), newWire(t, f.dsn)}
	var workers []string
	var sidecars []*sidecar
	for _, cable := range cables {
		s := startSidecar(t, cable.dsn, a.url, set)
		sidecars = append(sidecars, s)
		workers = append(workers, s.workers(t, f.db)...)
	}
	require.Len(t, workers, 2)

	answeredID, heldID := enqueue(t, f.db, "answered"), enqueue(t, f.db, "held")
	answeredCall, heldCall := a.await(t, answeredID, 1, soon), a.await(t, heldID, 1, soon)

	over := time.NewTimer(length)
	defer over.Stop()
	for _, cable := range cables {
		cable.set(mode)
	}
	// An answer that comes during the outage, before the fence, isn't lost.
	answered.open(answeredID)
	awaitEnd(t, answeredCall)
	// What still runs at the fence is given up.
	select {
	case <-heldCall.ctx.Done():
	case <-time.After(fence + soon):
		require.FailNow(t, "a sidecar without Postgres keeps its call")
	}
	for _, s := range sidecars {
		s.awaitReadyz(t, http.StatusServiceUnavailable, soon)
		status, _ := s.get(t, "/livez")
		require.Equal(t, http.StatusOK, status, "an outage of Postgres is no reason to restart a sidecar")
	}
	later := enqueueMany(t, f.db, "later", 20)
	<-over.C
	for _, cable := range cables {
		cable.set(wirePass)
	}

	awaitDrained(t, f.db, "later", soon)
	k := awaitStatus(t, f.db, answeredID, "completed", soon)
	require.JSONEq(t, `{"answered": "while Postgres was away"}`, string(k.Output))
	require.Len(t, a.callsOf(answeredID), 1)

	k = awaitStatus(t, f.db, heldID, "completed", soon)
	require.Zero(t, k.Lost)
	calls := a.callsOf(heldID)
	require.Len(t, calls, 2)
	require.Equal(t, 1, calls[1].attempt, "giving up at the fence spends no attempt")
	for _, id := range later {
		require.Len(t, a.callsOf(id), 1)
	}

	for _, s := range sidecars {
		s.awaitReady(t, soon)
	}
	require.Zero(t, f.countWorkers("evicted"), "nobody is evicted for an outage of Postgres")
	for _, worker := range workers {
		require.Equal(t, "active", f.workerState(worker), "a registration outlives an outage")
	}
}
