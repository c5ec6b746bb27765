package routing_test

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

	"github.com/sched-sidecar/sched/internal/fleettest"
)

// call is one attempt as the app saw it.
type call struct {
	ctx    context.Context // ends when the sidecar closes the connection
	id     int64
	kind   string
	queue  string
	worker string
	began  time.Time
}

// reply is what a handler says about its task.
type reply struct {
	status     int
	retryAfter string
}

// done is the reply of a task that went well.
var done = reply{status: http.StatusNoContent}

// app is a web server that records who called it with what, and how many tasks of
// a queue were in its handlers at once.
type app struct {
	url    string
	handle func(*call) reply

	mu      sync.Mutex
	calls   []*call
	running map[string]int // by queue
	most    map[string]int // of running
}

// newApp serves handle. A nil handle completes everything.
func newApp(t *testing.T, handle func(*call) reply) *app {
	t.Helper()
	if handle == nil {
		handle = func(*call) reply { return done }
	}
	a := &app{handle: handle, running: make(map[string]int), most: make(map[string]int)}
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
		return // a health probe, or a task that is taken back
	}
	// Only when the body is read does the server notice that the sidecar hangs up.
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	worker, _, _ := strings.Cut(r.Header.Get("Sched-Lease"), ".")
	c := &call{ctx: r.Context(), kind: strings.TrimPrefix(r.URL.Path, "/"), queue: r.Header.Get("Sched-Queue"), worker: worker, began: time.Now()}
	c.id, _ = strconv.ParseInt(r.Header.Get("Sched-Task-Id"), 10, 64)
	a.enter(c)
	answer := a.handle(c)
	a.leave(c)
	if answer.retryAfter != "" {
		w.Header().Set("Retry-After", answer.retryAfter)
	}
	w.WriteHeader(answer.status)
}

func (a *app) enter(c *call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls = append(a.calls, c)
	a.running[c.queue]++
	a.most[c.queue] = max(a.most[c.queue], a.running[c.queue])
}

func (a *app) leave(c *call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running[c.queue]--
}

// all returns the calls so far, in order.
func (a *app) all() []*call {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]*call(nil), a.calls...)
}

// count counts the calls of a kind so far, or of all for "".
func (a *app) count(kind string) int {
	n := 0
	for _, c := range a.all() {
		if kind == "" || c.kind == kind {
			n++
		}
	}
	return n
}

// ran tells whether a task was delivered here.
func (a *app) ran(id int64) bool {
	for _, c := range a.all() {
		if c.id == id {
			return true
		}
	}
	return false
}

// inFlight is how many tasks of a queue are in the handlers now.
func (a *app) inFlight(queue string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.running[queue]
}

// mostRunning is how many of a queue ever were.
func (a *app) mostRunning(queue string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.most[queue]
}

// work keeps a handler busy for a while, or until the sidecar hangs up.
func work(c *call, duration time.Duration) {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.ctx.Done():
	}
}

// gate holds handlers until it is opened.
type gate struct {
	once sync.Once
	ch   chan struct{}
}

func newGate(t *testing.T) *gate {
	t.Helper()
	g := &gate{ch: make(chan struct{})}
	t.Cleanup(g.open) // a failed test must not leave its handlers waiting
	return g
}

func (g *gate) open() { g.once.Do(func() { close(g.ch) }) }

// pass waits until the gate is open or the sidecar hangs up.
func (g *gate) pass(c *call) {
	select {
	case <-g.ch:
	case <-c.ctx.Done():
	}
}

// awaitInFlight waits until n tasks of a queue are in the handlers.
func (a *app) awaitInFlight(t *testing.T, queue string, n int) {
	t.Helper()
	fleettest.Eventually(t, fleettest.Soon, func() bool { return a.inFlight(queue) == n },
		func() string {
			return strconv.Itoa(a.inFlight(queue)) + " tasks of " + queue + " are in the handlers, not " + strconv.Itoa(n)
		})
}
