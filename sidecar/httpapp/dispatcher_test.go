package httpapp

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/sidecar/dispatch"
)

// TestContextEnds ends a dispatch while the app is at each stage of its answer,
// with each cause, and checks that the app sees the disconnect.
func TestContextEnds(t *testing.T) {
	t.Parallel()
	causes := []struct {
		cause error
		want  jobs.OutcomeKind
		says  string
	}{
		{dispatch.ErrDeadline, jobs.OutcomeRetry, "deadline exceeded after 7s"},
		{context.DeadlineExceeded, jobs.OutcomeRetry, "deadline exceeded after 7s"},
		{dispatch.ErrCancelled, jobs.OutcomeCancel, "cancelled"},
		{dispatch.ErrFenced, jobs.OutcomeHandBack, "lost contact with Postgres"},
		{dispatch.ErrShutdown, jobs.OutcomeHandBack, "shutting down"},
		{dispatch.ErrLeaseLost, jobs.OutcomeHandBack, "lease lost"},
		{nil, jobs.OutcomeHandBack, "context canceled"},
	}
	stages := map[string]string{
		"before any answer": "",
		"in the header":     "HTTP/1.1 200 OK\r\nX-Slow: ",
		"in a known length": "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
		"in a chunk":        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"a\":\r\n",
		"in a text":         "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\nd",
	}
	for stage, sent := range stages {
		for _, tc := range causes {
			t.Run(fmt.Sprintf("%s/%v", stage, tc.cause), func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithCancelCause(t.Context())
				disconnected := make(chan error, 1)
				reached := make(chan struct{})
				d := newRawApp(t, func(conn net.Conn) {
					_, _ = io.WriteString(conn, sent)
					<-reached
					cancel(tc.cause)
					_, err := conn.Read(make([]byte, 1))
					disconnected <- err
				}, func(c *Config) { c.Clock = clockOf(noon(), noon().Add(7*time.Second)) })
				signalReads(d, len(sent), reached)

				got := d.Dispatch(ctx, newTask())
				require.Equal(t, tc.want.String(), got.Kind.String())
				require.Contains(t, got.Error, tc.says)
				require.False(t, got.UnknownKind)
				require.Error(t, <-disconnected)
			})
		}
	}
}

// signalReads closes reached when d has read n bytes of its connection and
// wants more.
func signalReads(d *Dispatcher, n int, reached chan struct{}) {
	t := d.transport.(*plain) //nolint:forcetypeassert // a test's own
	dial := t.dial
	t.dial = func(ctx context.Context) (net.Conn, error) {
		conn, err := dial(ctx)
		return &signallingConn{Conn: conn, left: n, reached: reached}, err
	}
}

type signallingConn struct {
	net.Conn
	left    int
	reached chan struct{}
	once    sync.Once
}

func (c *signallingConn) Read(p []byte) (int, error) {
	if c.left == 0 {
		c.once.Do(func() { close(c.reached) })
	}
	n, err := c.Conn.Read(p)
	c.left -= n
	return n, err
}

// clockOf returns each time once, the last for ever.
func clockOf(times ...time.Time) func() time.Time {
	var calls atomic.Int64
	return func() time.Time { return times[min(int(calls.Add(1)), len(times))-1] }
}

func TestContextEndedBefore(t *testing.T) {
	t.Parallel()
	d := newApp(t, func(http.ResponseWriter, *http.Request) { t.Error("sent all the same") })
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(dispatch.ErrCancelled)
	require.Equal(t, jobs.OutcomeCancel, d.Dispatch(ctx, newTask()).Kind)
}

// TestStatusStandsWithoutItsBody breaks off the body of responses whose status
// said it all.
func TestStatusStandsWithoutItsBody(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]jobs.OutcomeKind{
		"202 Accepted": jobs.OutcomeAccepted, "400 Bad Request": jobs.OutcomeCancel, "404 Not Found": jobs.OutcomeHandBack,
	} {
		got := dispatchFor(t, newRawApp(t, func(conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 "+status+"\r\nContent-Length: 100\r\n\r\nso far")
		}), newTask())
		require.Equal(t, want.String(), got.Kind.String(), status)
		if want != jobs.OutcomeAccepted {
			require.Contains(t, got.Error, ": so far")
		}
	}
}

// TestNoAnswer takes apps that answer nothing usable.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ sent, says string }{
		"closes at once":            {"", "closed the connection first"},
		"closes in the header":      {"HTTP/1.1 200 OK\r\nX-A: b", "closed the connection first"},
		"closes in a known length":  {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", "closed the connection first"},
		"closes in a chunk":         {"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n1\r\n", "closed the connection first"},
		"speaks no HTTP":            {"SSH-2.0-OpenSSH_9.6\r\n\r\n", "malformed HTTP"},
		"an endless header":         {"HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("a", 2*headerBytes) + "\r\n\r\n", "headers exceeded"},
		"endless interim responses": {strings.Repeat("HTTP/1.1 103 Early Hints\r\nX-A: "+strings.Repeat("a", 1000)+"\r\n\r\n", 100), "exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := dispatchFor(t, newRawApp(t, func(conn net.Conn) { _, _ = io.WriteString(conn, tc.sent) }), newTask())
			require.Equal(t, "retry", got.Kind.String())
			require.Contains(t, got.Error, tc.says)
		})
	}
}

func TestConnectionRefused(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	got := dispatchFor(t, newDispatcher(t, server.URL), newTask())
	require.Equal(t, jobs.OutcomeHandBack, got.Kind, "the app never saw the task")
	require.True(t, got.AppDown)
	require.Contains(t, got.Error, "no answer from the app at "+server.URL)
	require.Contains(t, got.Error, "connection refused")
}

func TestRedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	var visits atomic.Int64
	d := newApp(t, func(w http.ResponseWriter, r *http.Request) {
		visits.Add(1)
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	require.Equal(t, jobs.OutcomeRetry, dispatchFor(t, d, newTask()).Kind)
	require.EqualValues(t, 1, visits.Load())
}

func TestResponseLimit(t *testing.T) {
	t.Parallel()
	const limit = 1000
	text := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
	for name, tc := range map[string]struct {
		body       string
		chunked    bool
		media      string
		wantOutput bool
		wantWarn   bool
	}{
		"at the limit":             {text(limit), false, "application/json", true, false},
		"at the limit, chunked":    {text(limit), true, "application/json", true, false},
		"over the limit":           {text(limit + 1), false, "application/json", false, true},
		"over the limit, chunked":  {text(limit + 1), true, "application/json", false, true},
		"far over the limit":       {text(limit << 12), true, "application/json", false, true},
		"text at the limit":        {text(limit), true, "text/plain", false, false},
		"text far over the limit":  {text(limit << 12), true, "text/plain", false, true},
		"over the limit and wrong": {strings.Repeat("x", limit+1), true, "application/json", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			d := newApp(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tc.media)
				if tc.chunked {
					_ = http.NewResponseController(w).Flush()
				} else {
					w.Header().Set("Content-Length", fmt.Sprint(len(tc.body)))
				}
				_, _ = io.WriteString(w, tc.body)
			}, func(c *Config) {
				c.MaxResponseBytes = limit
				c.Logger = slog.New(slog.NewTextHandler(&log, nil))
			})
			got := dispatchFor(t, d, newTask())
			require.Equal(t, "complete", got.Kind.String(), "the app has done it")
			require.Equal(t, tc.wantOutput, got.Output != nil)
			require.Equal(t, tc.wantWarn, strings.Contains(log.String(), "without its output"), log.String())
		})
	}
}

// TestAnnouncedSizeIsNotTrusted lets the app announce more than any memory.
func TestAnnouncedSizeIsNotTrusted(t *testing.T) {
	t.Parallel()
	got := dispatchFor(t, newRawApp(t, func(conn net.Conn) {
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9000000000000000000\r\n\r\n{")
		_, _ = conn.Read(make([]byte, 1))
	}), newTask())
	require.Equal(t, "complete", got.Kind.String())
	require.Nil(t, got.Output)
}

// TestSwitchedProtocol lets the app take over the connection, which then never
// ends by itself.
func TestSwitchedProtocol(t *testing.T) {
	t.Parallel()
	got := dispatchFor(t, newRawApp(t, func(conn net.Conn) {
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
		_, _ = conn.Read(make([]byte, 1))
	}), newTask())
	require.Equal(t, "retry", got.Kind.String())
	require.Contains(t, got.Error, "app answered 101")
}

// TestConnectionsAreKept sends waves of concurrent tasks, which end in all
// ways, and counts connections.
func TestConnectionsAreKept(t *testing.T) {
	t.Parallel()
	const slots, waves = 20, 5
	var opened atomic.Int64
	barrier := newBarrier(slots)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		barrier.wait()
		switch r.Header.Get("Sched-Attempt") {
		case "1":
			w.WriteHeader(http.StatusNoContent)
		case "2":
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"a":1}`)
		case "3":
			http.Error(w, strings.Repeat("x", snippetBytes*2), http.StatusInternalServerError)
		case "4":
			_ = http.NewResponseController(w).Flush()
			_, _ = io.WriteString(w, "text")
		default:
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, "later")
		}
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	d := newDispatcher(t, server.URL, func(c *Config) { c.IdleConnTimeout = time.Minute })

	for wave := range waves {
		var running sync.WaitGroup
		for range slots {
			running.Go(func() {
				task := newTask()
				task.Attempt = wave + 1
				dispatchFor(t, d, task)
			})
		}
		running.Wait()
	}
	require.LessOrEqual(t, opened.Load(), int64(slots+5), "a few may open while others are on their way back")
}

// barrier holds n callers until all are there, again and again.
type barrier struct {
	mu      sync.Mutex
	n, here int
	open    chan struct{}
}

func newBarrier(n int) *barrier { return &barrier{n: n, open: make(chan struct{})} }

func (b *barrier) wait() {
	b.mu.Lock()
	open := b.open
	if b.here++; b.here == b.n {
		b.here, b.open = 0, make(chan struct{})
		close(open)
	}
	b.mu.Unlock()
	<-open
}

// TestAttemptIsDeliveredOnce lets the app close a kept-alive connection over a
// request: it may have begun the task, so the attempt ends there.
func TestAttemptIsDeliveredOnce(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"X-Nothing", "Idempotency-Key", "X-Idempotency-Key"} {
		var deliveries atomic.Int64
		d := newApp(t, func(w http.ResponseWriter, _ *http.Request) {
			if deliveries.Add(1) == 1 {
				return
			}
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				panic(err)
			}
			_ = conn.Close()
		}, func(c *Config) { c.IdleConnTimeout = time.Minute })
		task := newTask()
		task.Headers = map[string]string{name: "k"}

		require.Equal(t, "complete", dispatchFor(t, d, task).Kind.String())
		require.Equal(t, "retry", dispatchFor(t, d, task).Kind.String())
		require.EqualValues(t, 2, deliveries.Load(), name)
	}
}

func TestUnixSocket(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "a:b.sock")
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	require.NoError(t, err)
	seen := make(chan received, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		seen <- received{path: r.URL.EscapedPath(), host: r.Host}
	}))
	require.NoError(t, server.Listener.Close())
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)

	for url, path := range map[string]string{
		"unix://" + socket:            "/mail.send",
		"unix://" + socket + ":/v1/t": "/v1/t/mail.send",
	} {
		d := newDispatcher(t, url)
		require.NoError(t, d.Probe(t.Context()))
		require.Equal(t, "complete", dispatchFor(t, d, newTask()).Kind.String())
		require.Equal(t, received{path: path, host: "localhost"}, <-seen)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	t.Cleanup(server.Close)

	stranger := dispatchFor(t, newDispatcher(t, server.URL), newTask())
	require.Equal(t, jobs.OutcomeRetry, stranger.Kind)
	require.Contains(t, stranger.Error, "certificate")

	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	d := newDispatcher(t, server.URL, func(c *Config) { c.TLS = &tls.Config{RootCAs: roots} })
	require.Equal(t, jobs.OutcomeComplete, dispatchFor(t, d, newTask()).Kind)
}

func TestNoProxyFromTheEnvironment(t *testing.T) {
	t.Parallel()
	d := newDispatcher(t, "h2c://app.local")
	for _, transport := range []transport{d.transport, d.probes} {
		require.IsType(t, (*standard)(nil), transport)
		require.Nil(t, transport.(*standard).Proxy) //nolint:forcetypeassert // just checked
	}
}
