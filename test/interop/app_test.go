package interop_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// call is one attempt as the app saw it.
type call struct {
	id     int64
	kind   string
	args   string
	header http.Header
	ctx    context.Context // ends when the sidecar hangs up
}

// reply is how the app answers a call: with a JSON body if there is one.
type reply struct {
	status int
	body   string
}

// app is the web server that a sidecar works for. What a kind does is its
// handler; one without a handler completes with its args as output.
type app struct {
	url string

	mu       sync.Mutex
	handlers map[string]func(*call) reply
	calls    []*call
}

func newApp(t *testing.T) *app {
	t.Helper()
	a := &app{handlers: map[string]func(*call) reply{}}
	server := httptest.NewServer(a)
	a.url = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return a
}

func (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		return // a health probe, or an accepted task that was revoked
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	c := &call{kind: strings.TrimPrefix(r.URL.Path, "/"), args: string(body), header: r.Header.Clone(), ctx: r.Context()}
	c.id, _ = strconv.ParseInt(r.Header.Get("Sched-Task-Id"), 10, 64)
	a.mu.Lock()
	a.calls = append(a.calls, c)
	handle := a.handlers[c.kind]
	a.mu.Unlock()

	answer := reply{http.StatusOK, c.args}
	if handle != nil {
		answer = handle(c)
	}
	if strings.HasPrefix(answer.body, "{") {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(answer.status)
	_, _ = io.WriteString(w, answer.body)
}

// on sets what a kind does from here on.
func (a *app) on(kind string, handle func(*call) reply) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.handlers[kind] = handle
}

// callsOf returns the calls of a task so far.
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
func (a *app) await(t *testing.T, id int64, n int) *call {
	t.Helper()
	require.Eventuallyf(t, func() bool { return len(a.callsOf(id)) >= n }, patience, tick, "task %d: call %d didn't come", id, n)
	return a.callsOf(id)[n-1]
}

// answering always gives one answer.
func answering(status int, body string) func(*call) reply {
	return func(*call) reply { return reply{status, body} }
}

// holding keeps a kind's calls until the sidecar hangs up or the test lets them
// go, which then complete.
func holding(t *testing.T) (handle func(*call) reply, release func()) {
	t.Helper()
	open := make(chan struct{})
	release = sync.OnceFunc(func() { close(open) })
	t.Cleanup(release)
	return func(c *call) reply {
		select {
		case <-open:
		case <-c.ctx.Done():
		}
		return reply{http.StatusNoContent, ""}
	}, release
}
