package mainjob_test

import (
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// asleep is longer than what evicts a worker, and shorter than the leader's term,
// 15 s of which up to 6 have passed.
const asleep = quickEvict + 500*time.Millisecond

// The leader judges heartbeats by the time in which it was itself awake: one
// that was stopped, for less than its term, mustn't take the others for dead.
func TestWokenLeaderEvictsNobody(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	leader := f.startLeader()
	hold := newGate(t)
	a := newApp(t, func(c *call) answer {
		hold.pass(c)
		return answer{status: http.StatusOK}
	})
	worker := f.start(a, nil)
	id := enqueue(t, f.db, "long")
	c := a.await(t, id, 1, soon)

	for range 3 {
		leader.suspend(t)
		throughout(t, asleep, func() bool { return !c.gone() }, func() string { return "the call was broken off" })
		leader.signal(syscall.SIGCONT)
		leader.awaitReady(t, soon)
		throughout(t, quickEvict, func() bool { return f.workerState(c.worker()) == "active" && !c.gone() },
			func() string { return "a healthy worker is " + f.workerState(c.worker()) })
	}
	hold.open()
	awaitStatus(t, f.db, id, "completed", soon)
	require.Len(t, worker.workers(t, f.db), 1)
	require.Len(t, a.callsOf(id), 1)
}

// A machine that was suspended wakes up with all its sidecars, the leader first.
func TestSuspendedMachineEvictsNobody(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	leader := f.startLeader()
	a := newApp(t, nil)
	worker := f.start(a, nil)
	before := worker.workers(t, f.db)
	for range 2 {
		leader.suspend(t)
		worker.suspend(t)
		id := enqueue(t, f.db, "task")
		throughout(t, asleep, func() bool { return len(a.callsOf(id)) == 0 }, func() string { return "a stopped sidecar works" })
		leader.signal(syscall.SIGCONT)
		// It has looked by then, and an eviction for silence since it woke is far off.
		throughout(t, 2*quickHeartbeat, func() bool { return f.countWorkers("evicted") == 0 }, func() string { return "evicted at the leader's first look" })
		worker.signal(syscall.SIGCONT)
		awaitStatus(t, f.db, id, "completed", soon)
	}
	require.Equal(t, before, worker.workers(t, f.db))
	require.Zero(t, f.countWorkers("evicted"))
}

// The leader is killed: another takes over, and finds the dead one's tasks.
func TestKilledLeaderIsReplaced(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := newApp(t, nil)
	a.handle = func(c *call) answer {
		if c.kind == "held" && len(a.callsOf(c.id)) == 1 {
			<-c.ctx.Done()
		}
		return answer{status: http.StatusOK}
	}
	leader := f.start(a, nil)
	leader.awaitLeading(t)
	id := enqueue(t, f.db, "held")
	a.await(t, id, 1, soon)
	f.start(a, nil)
	leader.kill()
	// Without a leader the work goes on.
	awaitStatus(t, f.db, enqueue(t, f.db, "meanwhile"), "completed", soon)
	k := awaitStatus(t, f.db, id, "completed", leaderless+soon)
	require.Equal(t, 1, k.Lost)
	require.Len(t, a.callsOf(id), 2)
}
