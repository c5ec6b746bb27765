package mainjob_test

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

// answer is what a handler says about its task.
type answer struct {
	status int
	header map[string]string
	body   string
	repeat int // writes the body this often; 0 is once
}

// call is one attempt as the app saw it.
type call struct {
	ctx         context.Context // ends when the sidecar closes the connection
	id          int64
	kind        string
	attempt     int
	maxAttempts int
	lease       string
	deadline    time.Time
	args        []byte
	header      http.Header

	began time.Time
	ended chan struct{}
	// Once ended is closed:
	endedAt   time.Time
	brokenOff bool // the sidecar hung up before the handler was done
}

// worker is the sidecar registration that made the call.
func (c *call) worker() string {
	worker, _, _ := strings.Cut(c.lease, ".")
	return worker
}

// gone reports whether the sidecar gave the call up.
func (c *call) gone() bool { return c.ctx.Err() != nil }

// app is a recording web server. It notices two attempts of one task that are
// in its handlers at once.
type app struct {
	t      *testing.T
	url    string
	server *httptest.Server
	handle func(*call) answer

	mu       sync.Mutex
	calls    []*call
	revoked  map[int64]string // reasons of DELETEs, by task
	changed  chan struct{}    // closed and replaced on every call
	running  map[int64]*call
	overlaps []string
	// overlapAllowed says that the test itself makes a task run twice: it
	// stops a sidecar whose connection to the app stays open.
	overlapAllowed bool
}

// newApp serves handle. A nil handle completes everything.
func newApp(t *testing.T, handle func(*call) answer) *app {
	t.Helper()
	if handle == nil {
		handle = func(*call) answer { return answer{status: http.StatusNoContent} }
	}
	a := &app{t: t, handle: handle, changed: make(chan struct{}), running: make(map[int64]*call), revoked: make(map[int64]string)}
	a.server = httptest.NewServer(a)
	a.url = a.server.URL
	t.Cleanup(func() {
		a.server.CloseClientConnections()
		a.server.Close()
		a.mu.Lock()
		defer a.mu.Unlock()
		if !a.overlapAllowed {
			require.Empty(t, a.overlaps, "a task was in two handlers at once")
		}
	})
	return a
}

func (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
	case http.MethodDelete:
		a.revoke(r)
		return
	default:
		return // a health probe
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	c := readCall(r, body)
	a.begin(c)
	reply := a.handle(c)
	a.end(c)
	if strings.HasPrefix(reply.body, "{") {
		w.Header().Set("Content-Type", "application/json")
	}
	for name, value := range reply.header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(reply.status)
	for range max(reply.repeat, 1) {
		if _, err := io.WriteString(w, reply.body); err != nil {
			return
		}
	}
}

// readCall takes a task out of its request (docs/http.md).
func readCall(r *http.Request, body []byte) *call {
	c := &call{
		ctx: r.Context(), kind: strings.TrimPrefix(r.URL.Path, "/"), args: body, header: r.Header.Clone(),
		lease: r.Header.Get("Sched-Lease"), began: time.Now(), ended: make(chan struct{}),
	}
	c.id, _ = strconv.ParseInt(r.Header.Get("Sched-Task-Id"), 10, 64)
	c.attempt, _ = strconv.Atoi(r.Header.Get("Sched-Attempt"))
	c.maxAttempts, _ = strconv.Atoi(r.Header.Get("Sched-Max-Attempts"))
	c.deadline, _ = time.Parse(time.RFC3339Nano, r.Header.Get("Sched-Deadline"))
	return c
}

// revoke records that an accepted task isn't the app's any more.
func (a *app) revoke(r *http.Request) {
	id, _ := strconv.ParseInt(r.Header.Get("Sched-Task-Id"), 10, 64)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.revoked[id] = r.Header.Get("Sched-Reason")
}

func (a *app) revocation(id int64) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.revoked[id]
}

// begin records c. An earlier attempt that is still in its handler is an
// overlap, unless its sidecar has hung up: the word of that can cross the next
// attempt on its way here, so it gets a second to arrive.
func (a *app) begin(c *call) {
	a.mu.Lock()
	earlier := a.running[c.id]
	a.running[c.id] = c
	a.calls = append(a.calls, c)
	close(a.changed)
	a.changed = make(chan struct{})
	a.mu.Unlock()

	if earlier == nil {
		return
	}
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-earlier.ctx.Done():
	case <-timer.C:
		a.mu.Lock()
		defer a.mu.Unlock()
		a.overlaps = append(a.overlaps, "task "+strconv.FormatInt(c.id, 10)+": lease "+earlier.lease+" still ran when "+c.lease+" began")
	}
}

func (a *app) end(c *call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.running[c.id] == c {
		delete(a.running, c.id)
	}
	c.endedAt, c.brokenOff = time.Now(), c.gone()
	close(c.ended)
}

// allowOverlap: see overlapAllowed.
func (a *app) allowOverlap() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.overlapAllowed = true
}

// callsOf returns the calls so far of one task, or of all for id 0.
func (a *app) callsOf(id int64) []*call {
	a.mu.Lock()
	defer a.mu.Unlock()
	var calls []*call
	for _, c := range a.calls {
		if id == 0 || c.id == id {
			calls = append(calls, c)
		}
	}
	return calls
}

// inFlight is the number of calls in the handlers now.
func (a *app) inFlight() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.running)
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

// awaitEnd waits until a handler is done.
func awaitEnd(t *testing.T, c *call) {
	t.Helper()
	timer := time.NewTimer(soon)
	defer timer.Stop()
	select {
	case <-c.ended:
	case <-timer.C:
		require.FailNowf(t, "no end", "the call of task %d, attempt %d, doesn't end", c.id, c.attempt)
	}
}

// gate holds handlers until it is opened. One whose handlers don't mind a closed
// connection must be made after its app, so that cleanup opens it first.
type gate struct {
	once sync.Once
	ch   chan struct{}
}

func newGate(t *testing.T) *gate {
	g := &gate{ch: make(chan struct{})}
	t.Cleanup(g.open) // a failed test must not leave its handlers waiting
	return g
}

func (g *gate) open() { g.once.Do(func() { close(g.ch) }) }

// pass waits until the gate is open, and reports false when the sidecar hung
// up first.
func (g *gate) pass(c *call) bool {
	select {
	case <-g.ch:
		return true
	case <-c.ctx.Done():
		return false
	}
}

// turnstile is a gate for each task.
type turnstile struct {
	t  *testing.T
	mu sync.Mutex
	by map[int64]*gate
}

func newTurnstile(t *testing.T) *turnstile { return &turnstile{t: t, by: make(map[int64]*gate)} }

func (s *turnstile) gate(id int64) *gate {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by[id] == nil {
		s.by[id] = newGate(s.t)
	}
	return s.by[id]
}

func (s *turnstile) open(id int64) { s.gate(id).open() }

func (s *turnstile) pass(c *call) bool { return s.gate(c.id).pass(c) }

// work keeps a handler busy for a while, or until the sidecar hangs up.
func work(c *call, duration time.Duration) {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.ctx.Done():
	}
}
