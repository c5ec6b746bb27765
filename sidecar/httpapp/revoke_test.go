package httpapp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/sidecar/dispatch"
)

func TestRevoke(t *testing.T) {
	t.Parallel()
	d, seen := recorder(t, withSecrets(vectorSecret), func(c *Config) { c.URL += "/tasks" })
	task := newTask()
	task.Kind = "mail/send"
	task.Headers = map[string]string{"traceparent": "00-a-b-01"}
	require.NoError(t, d.Revoke(t.Context(), task, dispatch.ErrCancelled))

	r := <-seen
	require.Equal(t, http.MethodDelete, r.method)
	require.Equal(t, "/tasks/mail%2Fsend/42", r.path)
	require.Empty(t, r.body)
	timestamp := strconv.FormatInt(noon().Unix(), 10)
	require.Equal(t, http.Header{
		"User-Agent":        {"sched-sidecar"},
		"Sched-Task-Id":     {"42"},
		"Sched-Queue":       {"default"},
		"Sched-Attempt":     {"2"},
		"Sched-Lease":       {"w-3f9k2m7q4t1x.1764480000123456"},
		"Sched-Reason":      {"cancelled"},
		"Traceparent":       {"00-a-b-01"},
		"Webhook-Id":        {"42"},
		"Webhook-Timestamp": {timestamp},
		"Webhook-Signature": {sign(d.keys, "42", timestamp, nil)},
	}, r.header)
}

func TestRevokeReasons(t *testing.T) {
	t.Parallel()
	for cause, want := range map[error]string{
		dispatch.ErrCancelled:    "cancelled",
		dispatch.ErrDeadline:     "deadline",
		context.DeadlineExceeded: "deadline",
		dispatch.ErrShutdown:     "shutdown",
		dispatch.ErrFenced:       "lease_lost",
		dispatch.ErrLeaseLost:    "lease_lost",
		errors.New("other"):      "lease_lost",
	} {
		require.Equal(t, want, reason(fmt.Errorf("wrapped: %w", cause)))
	}
}

func TestRevokeErrors(t *testing.T) {
	t.Parallel()
	for status, says := range map[int]string{
		204: "", 404: "", 405: "", 302: "", 500: "revoke task 42: app answered 500 Internal Server Error",
	} {
		d := newApp(t, answerWith(status, nil, ""))
		err := d.Revoke(t.Context(), newTask(), dispatch.ErrDeadline)
		if says == "" {
			require.NoError(t, err, status)
		} else {
			require.EqualError(t, err, says)
		}
	}

	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	err := newDispatcher(t, server.URL).Revoke(t.Context(), newTask(), dispatch.ErrDeadline)
	require.ErrorContains(t, err, "revoke task 42: no answer")
}

func TestRevokeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	d := newApp(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	require.ErrorIs(t, d.Revoke(ctx, newTask(), dispatch.ErrDeadline), context.Canceled)
}
