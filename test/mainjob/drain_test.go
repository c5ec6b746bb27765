package mainjob_test

import (
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDrainUnderLoad(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := newApp(t, func(c *call) answer {
		work(c, 30*time.Millisecond)
		return answer{status: http.StatusOK}
	})
	slots := settings{setSlots: "20"}
	sidecars := []*sidecar{f.start(a, slots), f.start(a, slots)}

	// A rolling restart, twice around.
	var ids []int64
	for i := range 4 {
		ids = append(ids, enqueueMany(t, f.db, "load", 900)...)
		leaving := sidecars[i%2]
		workers := leaving.workers(t, f.db)
		awaitBusy(t, a, workers)
		leaving.signal(syscall.SIGTERM)
		require.Zero(t, leaving.awaitExit(t, soon), "exit status")
		for _, worker := range workers {
			require.Equal(t, "done", f.workerState(worker))
			require.Zero(t, countTasks(t, f.db, "worker_id = $1 AND status = 'running'", worker), "a drained sidecar leaves no task running")
		}
		sidecars[i%2] = f.start(a, slots)
	}
	awaitDrained(t, f.db, "load", 60*time.Second)

	for _, c := range a.callsOf(0) {
		awaitEnd(t, c)
		require.False(t, c.brokenOff, "a drain within its grace breaks off no call")
		require.Equal(t, 1, c.attempt)
	}
	require.Len(t, a.callsOf(0), len(ids), "a drain repeats no call")
	require.Zero(t, f.countWorkers("evicted"))
}

// The order of a drain: not ready, no more claims, the call in flight
// finishes, its outcome is written, the registration ends, and the listener
// answers until then.
func TestDrainOrder(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	hold := newGate(t)
	a := newApp(t, func(c *call) answer {
		hold.pass(c)
		return answer{status: http.StatusOK, body: `{"finished": true}`}
	})
	s := f.start(a, nil)
	id := enqueue(t, f.db, "long")
	c := a.await(t, id, 1, soon)

	s.signal(syscall.SIGTERM)
	s.awaitReadyz(t, http.StatusServiceUnavailable, soon)
	status, _ := s.get(t, "/livez")
	require.Equal(t, http.StatusOK, status, "alive until the end")
	eventually(t, soon, func() bool { return f.workerState(c.worker()) == "draining" },
		func() string { return "the registration is " + f.workerState(c.worker()) })

	unclaimed := enqueue(t, f.db, "late")
	throughout(t, 2*time.Second, func() bool { return len(a.callsOf(unclaimed)) == 0 && !s.hasExited() && !c.gone() },
		func() string { return "a draining sidecar claims, or leaves its call alone" })

	hold.open()
	require.Zero(t, s.awaitExit(t, soon))
	k := readTask(t, f.db, id)
	require.Equal(t, "completed", k.Status, "written before the exit")
	require.JSONEq(t, `{"finished": true}`, string(k.Output))
	require.Equal(t, "done", f.workerState(c.worker()))
	require.Equal(t, "available", readTask(t, f.db, unclaimed).Status)
	require.Zero(t, readTask(t, f.db, unclaimed).Attempt)
}

func TestDrainHandsBackWhatOutlastsItsGrace(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := newApp(t, nil)
	a.handle = func(c *call) answer {
		if len(a.callsOf(c.id)) == 1 {
			<-c.ctx.Done()
		}
		return answer{status: http.StatusOK}
	}
	const grace = 12 * time.Second
	s := f.start(a, settings{setGrace: grace.String()})
	id := enqueue(t, f.db, "endless", with("max_attempts", 1))
	c := a.await(t, id, 1, soon)

	// Most of the grace is the task's; the rest is for handing it back.
	began := time.Now()
	s.signal(syscall.SIGTERM)
	awaitEnd(t, c)
	require.Greater(t, time.Since(began), grace/2, "the grace is granted")
	require.Zero(t, s.awaitExit(t, soon))
	require.Less(t, time.Since(began), 2*grace, "the grace is the limit")
	require.True(t, c.brokenOff)
	requireHandedBack(t, f, id)

	f.start(a, nil)
	require.Equal(t, 1, a.await(t, id, 2, soon).attempt, "handing back spends no attempt")
	awaitStatus(t, f.db, id, "completed", soon)
}

func TestSecondSIGTERMMeansNow(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := newApp(t, func(c *call) answer {
		<-c.ctx.Done()
		return answer{status: http.StatusOK}
	})
	s := f.start(a, settings{setGrace: "10m"})
	ids := enqueueMany(t, f.db, "endless", 5)
	for _, id := range ids {
		a.await(t, id, 1, soon)
	}

	s.signal(syscall.SIGTERM)
	s.awaitReadyz(t, http.StatusServiceUnavailable, soon)
	require.False(t, s.exitsWithin(time.Second), "the first SIGTERM waits for the calls in flight")
	s.signal(syscall.SIGTERM)
	code := s.awaitExit(t, soon)
	require.Contains(t, []int{0, 128 + int(syscall.SIGTERM)}, code)
	for _, id := range ids {
		requireHandedBack(t, f, id)
	}
	require.Equal(t, "done", f.workerState(a.callsOf(ids[0])[0].worker()))
}

func requireHandedBack(t *testing.T, f *fleet, id int64) {
	t.Helper()
	k := readTask(t, f.db, id)
	require.Equal(t, "available", k.Status, "handed back at once: %s", k)
	require.Zero(t, k.Attempt, "unspent")
	require.Zero(t, k.Lost)
	require.Nil(t, k.Error, "a hand-back is no failure: %s", k)
}

// Postgres is away when the sidecar shall end: it still ends, and says so; its
// task runs elsewhere.
func TestDrainWithoutPostgres(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.startLeader()
	a := newApp(t, nil)
	a.handle = func(c *call) answer {
		if len(a.callsOf(c.id)) == 1 {
			<-c.ctx.Done()
		}
		return answer{status: http.StatusOK}
	}
	const grace = 2 * time.Second
	for name, mode := range map[string]wireMode{"connections refused": wireAway, "packets swallowed": wireFrozen} {
		cable := newWire(t, f.dsn)
		s := startSidecar(t, cable.dsn, a.url, quick().plus(settings{setGrace: grace.String()}))
		id := enqueue(t, f.db, "task")
		a.await(t, id, 1, soon)
		cable.set(mode)
		s.signal(syscall.SIGTERM)
		require.NotZero(t, s.awaitExit(t, grace+soon), name)

		heir := f.start(a, nil)
		awaitStatus(t, f.db, id, "completed", soon)
		heir.signal(syscall.SIGTERM)
		require.Zero(t, heir.awaitExit(t, soon))
	}
}

func TestDrainByRequest(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	hold := newGate(t)
	a := newApp(t, func(c *call) answer {
		hold.pass(c)
		return answer{status: http.StatusOK}
	})
	s := f.start(a, nil)
	id := enqueue(t, f.db, "long")
	c := a.await(t, id, 1, soon)

	status, _ := s.get(t, "/drain")
	require.Equal(t, http.StatusMethodNotAllowed, status, "a GET changes nothing")
	status, body := s.request(t, http.MethodPost, "/drain", nil, "")
	require.Contains(t, []int{http.StatusOK, http.StatusAccepted}, status, body)
	s.awaitReadyz(t, http.StatusServiceUnavailable, soon)
	eventually(t, soon, func() bool { return f.workerState(c.worker()) == "draining" },
		func() string { return "the registration is " + f.workerState(c.worker()) })
	unclaimed := enqueue(t, f.db, "late")
	throughout(t, time.Second, func() bool { return len(a.callsOf(unclaimed)) == 0 && !c.gone() },
		func() string { return "a draining sidecar claims, or leaves its call alone" })
	hold.open()
	awaitStatus(t, f.db, id, "completed", soon)

	// Whoever asked for the drain, such as a hook before the stop, ends the
	// process.
	s.signal(syscall.SIGTERM)
	require.Zero(t, s.awaitExit(t, soon))
	require.Equal(t, "done", f.workerState(c.worker()))
}

// Tasks that the app has accepted are its own to settle, while the sidecar
// drains too.
func TestDrainWaitsForAcceptedTasks(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := newApp(t, func(*call) answer { return answer{status: http.StatusAccepted} })
	s := f.start(a, nil)
	id := enqueue(t, f.db, "accepted")
	c := a.await(t, id, 1, soon)
	awaitEnd(t, c)

	s.signal(syscall.SIGTERM)
	s.awaitReadyz(t, http.StatusServiceUnavailable, soon)
	require.False(t, s.exitsWithin(time.Second), "the app still works on a task")
	s.settleAccepted(t, c, "complete", `{"settled": "during the drain"}`)
	require.Zero(t, s.awaitExit(t, soon))
	k := readTask(t, f.db, id)
	require.Equal(t, "completed", k.Status)
	require.JSONEq(t, `{"settled": "during the drain"}`, string(k.Output))
}

// An accepted task that outlasts the grace goes back, and the app is told.
func TestDrainHandsBackAcceptedTasks(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := newApp(t, func(*call) answer { return answer{status: http.StatusAccepted} })
	s := f.start(a, settings{setGrace: "12s"})
	id := enqueue(t, f.db, "accepted", with("max_attempts", 1))
	awaitEnd(t, a.await(t, id, 1, soon))
	s.signal(syscall.SIGTERM)
	require.Zero(t, s.awaitExit(t, soon))
	require.Equal(t, "shutdown", a.revocation(id))
	k := readTask(t, f.db, id)
	require.Equal(t, "available", k.Status)
	require.Zero(t, k.Attempt)
}
