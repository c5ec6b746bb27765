package mainjob_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// settleAccepted settles a task that the app answered with 202.
func (s *sidecar) settleAccepted(t *testing.T, c *call, verb, body string) {
	t.Helper()
	status, reply := s.tryToSettle(t, c.id, c.lease, verb, body)
	require.Less(t, status, 300, reply)
}

func (s *sidecar) tryToSettle(t *testing.T, id int64, lease, verb, body string) (int, string) {
	t.Helper()
	header := map[string]string{"Sched-Lease": lease, "Content-Type": "application/json"}
	return s.request(t, http.MethodPost, fmt.Sprintf("/v1/tasks/%d/%s", id, verb), header, body)
}

func TestAcceptedTaskIsSettledLater(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := newApp(t, nil)
	a.handle = func(c *call) answer {
		if c.kind == "accepted" && len(a.callsOf(c.id)) == 1 {
			return answer{status: http.StatusAccepted}
		}
		return answer{status: http.StatusOK}
	}
	s := f.start(a, settings{setSlots: "2"})

	id := enqueue(t, f.db, "accepted")
	c := a.await(t, id, 1, soon)
	awaitEnd(t, c)
	// Beyond every lease of the quick timing: an accepted task is alive as long
	// as its sidecar is.
	throughout(t, 2*quickEvict, func() bool { return readTask(t, f.db, id).Status == "running" && len(a.callsOf(id)) == 1 },
		func() string { return readTask(t, f.db, id).String() })

	status, _ := s.tryToSettle(t, id, "w-000000000000.1764480000123456", "complete", `{}`)
	require.Equal(t, http.StatusConflict, status, "somebody else's lease")
	status, _ = s.tryToSettle(t, id, "nonsense", "complete", `{}`)
	require.GreaterOrEqual(t, status, 400)
	require.Less(t, status, 500)
	require.Equal(t, "running", readTask(t, f.db, id).Status)

	s.settleAccepted(t, c, "complete", `{"settled": "later"}`)
	k := awaitStatus(t, f.db, id, "completed", soon)
	require.JSONEq(t, `{"settled": "later"}`, string(k.Output))

	// Its slot is free again: more tasks than slots come through.
	enqueueMany(t, f.db, "ordinary", 5)
	awaitDrained(t, f.db, "ordinary", soon)
}

func TestAcceptedTaskCanFail(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := newApp(t, nil)
	a.handle = func(c *call) answer {
		if len(a.callsOf(c.id)) == 1 {
			return answer{status: http.StatusAccepted}
		}
		return answer{status: http.StatusOK}
	}
	s := f.start(a, nil)
	id := enqueue(t, f.db, "accepted")
	c := a.await(t, id, 1, soon)
	awaitEnd(t, c)
	s.settleAccepted(t, c, "retry", `{"error": "the printer is on fire"}`)
	awaitStatus(t, f.db, id, "completed", soon)
	attempts := readAttempts(t, f.db, id)
	require.Equal(t, []string{"retry", "completed"}, outcomes(attempts))
	require.Contains(t, text(attempts[0].Error), "the printer is on fire")
}

func TestAcceptedTaskCanBePutOffAndCancelled(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := newApp(t, func(*call) answer { return answer{status: http.StatusAccepted} })
	s := f.start(a, nil)
	id := enqueue(t, f.db, "accepted", with("max_attempts", 1))
	c := a.await(t, id, 1, soon)
	awaitEnd(t, c)
	s.settleAccepted(t, c, "snooze", `{"delay_ms": 500}`)
	// Twice with one lease is harmless, and with an old one refused.
	status, _ := s.tryToSettle(t, id, c.lease, "snooze", `{"delay_ms": 500}`)
	require.Contains(t, []int{http.StatusNoContent, http.StatusConflict}, status)
	again := a.await(t, id, 2, soon)
	awaitEnd(t, again)
	require.Equal(t, 1, again.attempt, "a snooze spends no attempt")
	status, _ = s.tryToSettle(t, id, c.lease, "complete", `{}`)
	require.Equal(t, http.StatusConflict, status)
	s.settleAccepted(t, again, "cancel", `{"error": "no such mailbox"}`)
	k := awaitStatus(t, f.db, id, "cancelled", soon)
	require.Equal(t, "no such mailbox", text(k.Error))
}

// An accepted task whose sidecar dies runs elsewhere, and its old lease is void.
func TestAcceptedTaskOutlivesItsSidecar(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.startLeader()
	a := newApp(t, func(*call) answer { return answer{status: http.StatusAccepted} })
	first := f.start(a, nil)
	id := enqueue(t, f.db, "accepted")
	old := a.await(t, id, 1, soon)
	awaitEnd(t, old)
	second := f.start(a, nil)
	first.kill()
	current := a.await(t, id, 2, soon)
	awaitEnd(t, current)

	status, _ := second.tryToSettle(t, id, old.lease, "complete", `{"by": "the old lease"}`)
	require.Equal(t, http.StatusConflict, status)
	require.Equal(t, "running", readTask(t, f.db, id).Status)
	second.settleAccepted(t, current, "complete", `{"by": "the current lease"}`)
	k := awaitStatus(t, f.db, id, "completed", soon)
	require.JSONEq(t, `{"by": "the current lease"}`, string(k.Output))
}

func TestAcceptedTaskHasADeadline(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := newApp(t, nil)
	a.handle = func(c *call) answer {
		if len(a.callsOf(c.id)) == 1 {
			return answer{status: http.StatusAccepted}
		}
		return answer{status: http.StatusOK}
	}
	f.start(a, nil)
	id := enqueue(t, f.db, "accepted", with("timeout", 5*time.Second))
	awaitStatus(t, f.db, id, "completed", soon)
	attempts := readAttempts(t, f.db, id)
	require.Equal(t, []string{"retry", "completed"}, outcomes(attempts))
	require.Contains(t, text(attempts[0].Error), "deadline")
	eventually(t, soon, func() bool { return a.revocation(id) == "deadline" }, func() string { return "the app doesn't hear of it" })
}
