package httpapp

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/sidecar/dispatch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noon is the time in all tests.
func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// newDispatcher returns a dispatcher to url, closed when the test ends.
func newDispatcher(tb testing.TB, url string, change ...func(*Config)) *Dispatcher {
	tb.Helper()
	config := Config{URL: url, Clock: noon}
	for _, f := range change {
		f(&config)
	}
	d, err := New(config)
	require.NoError(tb, err)
	tb.Cleanup(d.Close)
	return d
}

// newApp returns a dispatcher to an app that is this handler.
func newApp(tb testing.TB, handler http.HandlerFunc, change ...func(*Config)) *Dispatcher {
	tb.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.Start()
	tb.Cleanup(server.Close)
	return newDispatcher(tb, server.URL, change...)
}

// newRawApp returns a dispatcher to an app that reads a request's header and
// then does with the connection what talk says. The connection is closed after.
func newRawApp(tb testing.TB, talk func(net.Conn), change ...func(*Config)) *Dispatcher {
	tb.Helper()
	return newApp(tb, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer func() { _ = conn.Close() }()
		talk(conn)
	}, change...)
}

func newTask() *dispatch.Task {
	return &dispatch.Task{
		ID: 42, Kind: "mail.send", Queue: "default", Attempt: 2, MaxAttempts: 25, Priority: 1,
		Args:      json.RawMessage(`{"to": "a@example.com"}`),
		Lease:     jobs.Lease{WorkerID: "w-3f9k2m7q4t1x", AttemptedAt: time.UnixMicro(1764480000123456)},
		CreatedAt: time.Date(2026, 3, 1, 11, 59, 58, 7_654_321, time.UTC),
	}
}

// dispatchFor is Dispatch with a limit that only a hanging test reaches.
func dispatchFor(tb testing.TB, d *Dispatcher, task *dispatch.Task) jobs.Outcome {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	return d.Dispatch(ctx, task)
}
