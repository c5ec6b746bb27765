package postgres_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// call is one attempt as the app saw it.
type call struct {
	ctx     context.Context // ends when the sidecar closes the connection
	id      int64
	kind    string
	attempt int
	lease   string
	began   time.Time
}

// worker is the sidecar registration that made the call.
func (c *call) worker() string {
	worker, _, _ := strings.Cut(c.lease, ".")
	return worker
}

// app is a recording web server.
type app struct {
	url    string
	handle func(*call) (status int, body string)

	mu      sync.Mutex
	calls   []*call
	changed chan struct{} // closed and replaced on every call
}

// newApp serves handle. A nil handle completes everything.
func newApp(t *testing.T, handle func(*call) (int, string)) *app {
	t.Helper()
	if handle == nil {
		handle = func(*call) (int, string) { return http.StatusNoContent, "" }
	}
	a := &app{handle: handle, changed: make(chan struct{})}
	server := httptest.NewServer(a)
	a.url = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return a
}

// ServeHTTP takes a task out of its request (docs/http.md).
func (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		return // a health probe
	}
	// The server notices a closed connection only once the body is read.
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	c := &call{ctx: r.Context(), kind: strings.TrimPrefix(r.URL.Path, "/"), lease: r.Header.Get("Sched-Lease"), began: time.Now()}
	c.id, _ = strconv.ParseInt(r.Header.Get("Sched-Task-Id"), 10, 64)
	c.attempt, _ = strconv.Atoi(r.Header.Get("Sched-Attempt"))
	a.mu.Lock()
	a.calls = append(a.calls, c)
	close(a.changed)
	a.changed = make(chan struct{})
	a.mu.Unlock()

	status, body := a.handle(c)
	if body != "" {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}

// callsOf returns the calls so far of one task.
func (a *app) callsOf(id int64) []*call {
	a.mu.Lock()
	defer a.mu.Unlock()
	var calls []*call
	for _, c := range a.calls {
		if c.id == id {
			calls = append(calls, c)
		}
	}
	return calls
}

// await returns the n-th call (from 1) of a task.
func (a *app) await(t *testing.T, id int64, n int, within time.Duration) *call {
	t.Helper()
	timer := time.NewTimer(within)
	defer timer.Stop()
	for {
		a.mu.Lock()
		changed := a.changed
		a.mu.Unlock()
		calls := a.callsOf(id)
		if len(calls) >= n {
			return calls[n-1]
		}
		select {
		case <-changed:
		case <-timer.C:
			require.FailNowf(t, "no call", "task %d: call %d didn't come within %s; it had %d", id, n, within, len(calls))
		}
	}
}
