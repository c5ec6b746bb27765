package httpapp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/jobs"
)

// newCountedApp returns a dispatcher to an app that is this handler, and how many
// connections it has taken and not yet seen closed.
func newCountedApp(tb testing.TB, handler http.HandlerFunc, change ...func(*Config)) (d *Dispatcher, server *httptest.Server, opened, open *atomic.Int64) {
	tb.Helper()
	opened, open = new(atomic.Int64), new(atomic.Int64)
	server = httptest.NewUnstartedServer(handler)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			opened.Add(1)
			open.Add(1)
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		}
	}
	server.Start()
	tb.Cleanup(server.Close)
	return newDispatcher(tb, server.URL, change...), server, opened, open
}

func keepForAMinute(c *Config) { c.IdleConnTimeout = time.Minute }

func answer204(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

// A kept connection that the app has closed meanwhile costs no attempt.
func TestConnectionThatTheAppClosed(t *testing.T) {
	t.Parallel()
	d, server, opened, open := newCountedApp(t, answer204, keepForAMinute)
	require.Equal(t, jobs.OutcomeComplete, dispatchFor(t, d, newTask()).Kind)
	server.CloseClientConnections()
	require.Eventually(t, func() bool { return open.Load() == 0 }, 20*time.Second, time.Millisecond)
	require.Equal(t, jobs.OutcomeComplete, dispatchFor(t, d, newTask()).Kind)
	require.EqualValues(t, 2, opened.Load())
}

// What an app sends unasked is no response to the next task.
func TestResponseThatNobodyAskedFor(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	sent := make(chan struct{})
	d := newApp(t, func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) > 1 {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `"mine"`)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		go func() {
			defer func() { _ = conn.Close() }()
			_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
			<-sent // the first one is over
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n\"wrong\"")
			sent <- struct{}{}
			<-sent
		}()
	}, keepForAMinute)
	require.Equal(t, jobs.OutcomeComplete, dispatchFor(t, d, newTask()).Kind)
	sent <- struct{}{}
	<-sent
	require.Equal(t, `"mine"`, string(dispatchFor(t, d, newTask()).Output))
	close(sent)
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	const tasks = 5
	here := newBarrier(tasks)
	d, _, opened, open := newCountedApp(t, func(w http.ResponseWriter, _ *http.Request) {
		here.wait()
		w.WriteHeader(http.StatusNoContent)
	}, func(c *Config) { c.IdleConnTimeout = 50 * time.Millisecond })
	for wave := range 2 {
		var running sync.WaitGroup
		for range tasks {
			running.Go(func() { dispatchFor(t, d, newTask()) })
		}
		running.Wait()
		require.EqualValues(t, tasks*(wave+1), opened.Load())
		require.Eventually(t, func() bool { return open.Load() == 0 }, 20*time.Second, time.Millisecond)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	var most, inside atomic.Int64
	d, _, opened, _ := newCountedApp(t, func(w http.ResponseWriter, _ *http.Request) {
		if n := inside.Add(1); n > most.Load() {
			most.Store(n)
		}
		w.WriteHeader(http.StatusNoContent)
		inside.Add(-1)
	}, keepForAMinute, func(c *Config) { c.MaxConns = 2 })
	var running sync.WaitGroup
	for range 50 {
		running.Go(func() {
			if outcome := dispatchFor(t, d, newTask()); outcome.Kind != jobs.OutcomeComplete {
				t.Errorf("%s: %s", outcome.Kind, outcome.Error)
			}
		})
	}
	running.Wait()
	require.LessOrEqual(t, most.Load(), int64(2))
	require.LessOrEqual(t, opened.Load(), int64(2))
}

// A task that waits for a connection ends with its context, and nothing of it is sent.
func TestWaitForAConnectionEnds(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}), make(chan struct{})
	var calls atomic.Int64
	d, _, _, _ := newCountedApp(t, func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		close(begun)
		<-release
		w.WriteHeader(http.StatusNoContent)
	}, func(c *Config) { c.MaxConns = 1 })
	var first sync.WaitGroup
	first.Go(func() { dispatchFor(t, d, newTask()) })
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	require.Equal(t, jobs.OutcomeHandBack, d.Dispatch(ctx, newTask()).Kind)
	close(release)
	first.Wait()
	require.EqualValues(t, 1, calls.Load())
}

// An app says that it keeps no connection, each in its own way.
func TestConnectionsThatAreNotKept(t *testing.T) {
	t.Parallel()
	for name, response := range map[string]string{
		"Connection: close":        "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
		"HTTP/1.0":                 "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
		"up to the end":            "HTTP/1.1 200 OK\r\n\r\nsome text",
		"more than one response":   "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"a longer body than known": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{} ",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ended := make(chan error, 1)
			d := newRawApp(t, func(conn net.Conn) {
				_, _ = io.WriteString(conn, response)
				if name == "up to the end" {
					ended <- conn.Close()
					return
				}
				_, err := conn.Read(make([]byte, 1))
				ended <- err
			}, keepForAMinute)
			require.Equal(t, jobs.OutcomeComplete, dispatchFor(t, d, newTask()).Kind)
			if err := <-ended; name != "up to the end" {
				require.ErrorIs(t, err, io.EOF)
			}
			require.Empty(t, d.transport.(*plain).idle) //nolint:forcetypeassert // it is plain HTTP
		})
	}
}

// An app may answer a long body before it has read it, at length or in short.
func TestAnswerBeforeALongBodyIsRead(t *testing.T) {
	t.Parallel()
	args := `{"text": "` + strings.Repeat("x", 8<<20) + `"}`
	long := `"` + strings.Repeat("y", 8<<20) + `"`
	for name, tc := range map[string]struct {
		answer string
		want   jobs.OutcomeKind
	}{
		"refused":  {"HTTP/1.1 413 Content Too Large\r\nContent-Length: 4\r\n\r\nlong", jobs.OutcomeCancel},
		"answered": {"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(long)) + "\r\n\r\n" + long, jobs.OutcomeComplete},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
			require.NoError(t, err)
			t.Cleanup(func() { _ = listener.Close() })
			go func() {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				defer func() { _ = conn.Close() }()
				_, _ = io.ReadFull(conn, make([]byte, 1000))
				_, _ = io.WriteString(conn, tc.answer)
				_, _ = conn.Read(make([]byte, 1))
				_, _ = io.Copy(io.Discard, conn)
			}()
			d := newDispatcher(t, "http://"+listener.Addr().String(), func(c *Config) { c.MaxResponseBytes = 16 << 20 })
			task := newTask()
			task.Args = []byte(args)
			got := dispatchFor(t, d, task)
			require.Equal(t, tc.want.String(), got.Kind.String(), got.Error)
		})
	}
}

// A long body arrives as it is, over a connection that is kept.
func TestLongBodies(t *testing.T) {
	t.Parallel()
	seen := make(chan []byte, 1)
	d, _, opened, _ := newCountedApp(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen <- body
		w.WriteHeader(http.StatusNoContent)
	}, keepForAMinute)
	for _, n := range []int{aloneBytes - 2000, aloneBytes, aloneBytes + 1, 1 << 20, 10} {
		task := newTask()
		task.Args = []byte(`"` + strings.Repeat("z", n) + `"`)
		require.Equal(t, jobs.OutcomeComplete, dispatchFor(t, d, task).Kind)
		require.True(t, bytes.Equal(task.Args, <-seen), n)
	}
	require.EqualValues(t, 1, opened.Load())
}

// faultyConn fails its second write, after so many bytes.
type faultyConn struct {
	net.Conn
	writes, passes int
}

func (c *faultyConn) Write(p []byte) (int, error) {
	if c.writes++; c.writes < 2 {
		return c.Conn.Write(p)
	}
	n, _ := c.Conn.Write(p[:c.passes]) // the app waits for the rest
	return n, errors.New("broken for the test")
}

// A request is sent again only if nothing of it went out.
func TestSentAgainOnlyIfNothingWasSent(t *testing.T) {
	t.Parallel()
	for passes, want := range map[int]jobs.OutcomeKind{0: jobs.OutcomeComplete, 1: jobs.OutcomeRetry} {
		d, _, opened, _ := newCountedApp(t, answer204, keepForAMinute)
		transport := d.transport.(*plain) //nolint:forcetypeassert // it is plain HTTP
		dial := transport.dial
		transport.dial = func(ctx context.Context) (net.Conn, error) {
			conn, err := dial(ctx)
			return &faultyConn{Conn: conn, passes: passes}, err
		}
		require.Equal(t, jobs.OutcomeComplete, dispatchFor(t, d, newTask()).Kind)
		task := newTask()
		task.Headers = map[string]string{"Idempotency-Key": "k"}
		require.Equal(t, want.String(), dispatchFor(t, d, task).Kind.String())
		require.EqualValues(t, map[int]int{0: 2, 1: 1}[passes], opened.Load())
	}
}
