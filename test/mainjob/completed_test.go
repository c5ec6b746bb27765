package mainjob_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// A task that its app has completed in its own transaction is over, whatever
// the app answers then.
func TestAnswerAfterCompletionChangesNothing(t *testing.T) {
	t.Parallel()
	answers := map[string]answer{
		"ok":      {status: http.StatusOK, body: `{"from": "the answer"}`},
		"failed":  {status: http.StatusInternalServerError},
		"gone":    {status: http.StatusGone},
		"unknown": {status: http.StatusNotFound},
		"busy":    {status: http.StatusServiceUnavailable, header: map[string]string{"Retry-After": "0"}},
		"again":   {status: http.StatusConflict},
	}
	f := newFleet(t)
	a := newApp(t, nil)
	a.handle = func(c *call) answer {
		if _, err := f.db.Exec(c.ctx, `SELECT sched.complete($1, $2, '{"from": "the transaction"}')`, c.id, c.lease); err != nil {
			return answer{status: http.StatusBadRequest, body: err.Error()}
		}
		return answers[c.kind]
	}
	s := f.start(a, nil)
	for kind := range answers {
		id := enqueue(t, f.db, kind)
		before := awaitStatus(t, f.db, id, "completed", soon)
		awaitEnd(t, a.await(t, id, 1, soon))
		// Settled in order: when this one is, the answer has been dealt with.
		eventually(t, soon, func() bool { return s.metric(t, metricRunning) == 0 }, func() string { return "its slot isn't free: " + kind })
		after := readTask(t, f.db, id)
		require.Equal(t, before.String(), after.String(), kind)
		require.JSONEq(t, `{"from": "the transaction"}`, string(after.Output), kind)
		require.Len(t, a.callsOf(id), 1, kind)
	}
	require.Zero(t, s.metric(t, metricRefused), "no lease was lost")
}

// An accepted task may be completed in SQL too; its slot is free soon after.
func TestAcceptedTaskIsCompletedInSQL(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := newApp(t, nil)
	a.handle = func(c *call) answer {
		if c.kind == "accepted" {
			return answer{status: http.StatusAccepted}
		}
		return answer{status: http.StatusOK}
	}
	f.start(a, settings{setSlots: "1"})
	for range 2 {
		id := enqueue(t, f.db, "accepted")
		c := a.await(t, id, 1, soon)
		awaitEnd(t, c)
		_, err := f.db.Exec(t.Context(), "SELECT sched.complete($1, $2)", id, c.lease)
		require.NoError(t, err)
		awaitStatus(t, f.db, enqueue(t, f.db, "next"), "completed", soon)
	}
}
