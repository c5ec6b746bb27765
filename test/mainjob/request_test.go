package mainjob_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The request is a CloudEvent in binary mode with the task's own headers
// (docs/http.md).
func TestRequest(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := newApp(t, nil)
	f.start(a, nil)
	before := time.Now()
	id := enqueue(t, f.db, "mail.send", with("queue", "mail"), with("batch", "may"), with("max_attempts", 7), with("timeout", time.Hour),
		with("args", `{"to": "ä@example.com", "big": 12345678901234567890}`),
		with("headers", `{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "Authorization": "Bearer x", "Sched-Lease": "forged"}`))
	c := a.await(t, id, 1, soon)

	require.JSONEq(t, `{"to": "ä@example.com", "big": 12345678901234567890}`, string(c.args))
	require.Contains(t, string(c.args), "12345678901234567890", "numbers keep all their digits")
	require.Equal(t, "mail.send", c.kind)
	require.Equal(t, 1, c.attempt)
	require.Equal(t, 7, c.maxAttempts)
	require.WithinDuration(t, before.Add(time.Hour), c.deadline, soon)
	for header, want := range map[string]string{
		"Content-Type": "application/json", "Ce-Specversion": "1.0", "Ce-Type": "mail.send", "Ce-Subject": "mail", "Sched-Queue": "mail",
		"Sched-Batch": "may", "Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "Authorization": "Bearer x",
	} {
		require.Equal(t, want, c.header.Get(header), header)
	}
	require.Equal(t, c.header.Get("Sched-Task-Id"), c.header.Get("Ce-Id"))
	require.NotEmpty(t, c.header.Get("Ce-Source"))
	require.Equal(t, c.worker(), text(awaitStatus(t, f.db, id, "completed", soon).WorkerID), "the lease names the worker")
	require.Len(t, c.header.Values("Sched-Lease"), 1)
}
