package httpapp

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/jobs"
)

// newH2App returns a dispatcher to an app that speaks HTTP/2 without TLS and
// nothing else, on TCP or a Unix socket.
func newH2App(tb testing.TB, network string, handler http.HandlerFunc, change ...func(*Config)) *Dispatcher {
	tb.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	url := "h2c://" + server.Listener.Addr().String() + "/tasks"
	if network == "unix" {
		dir, err := os.MkdirTemp("", "h2") //nolint:usetesting // t.TempDir is too long for a socket's path
		require.NoError(tb, err)
		tb.Cleanup(func() { _ = os.RemoveAll(dir) })
		socket := filepath.Join(dir, "app.sock")
		listener, err := new(net.ListenConfig).Listen(tb.Context(), "unix", socket)
		require.NoError(tb, err)
		require.NoError(tb, server.Listener.Close())
		server.Listener, url = listener, "h2c+unix://"+socket+":/tasks"
	}
	server.Start()
	tb.Cleanup(server.Close)
	return newDispatcher(tb, url, change...)
}

func TestHTTP2OverCleartext(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			remotes := map[string]bool{}
			d := newH2App(t, network, func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				remotes[r.RemoteAddr] = true
				mu.Unlock()
				if r.ProtoMajor != 2 || r.URL.Path != "/tasks/mail.send" || r.Header.Get(headerLease) == "" {
					w.WriteHeader(http.StatusBadRequest)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(`{"sent": true}`))
			})
			require.NoError(t, d.Probe(t.Context()))
			var calls sync.WaitGroup
			for range 50 {
				calls.Go(func() {
					outcome := dispatchFor(t, d, newTask())
					if outcome.Kind != jobs.OutcomeComplete || string(outcome.Output) != `{"sent": true}` {
						t.Errorf("%s: %s", outcome.Kind, outcome.Error)
					}
				})
			}
			calls.Wait()
			require.Len(t, remotes, 1, "connections that carried tasks")
		})
	}
}

// More tasks at once than an app allows on one connection go over more of them.
func TestHTTP2GoesBeyondOneConnectionsRequests(t *testing.T) {
	t.Parallel()
	const tasks = 20
	var inside sync.WaitGroup
	inside.Add(tasks)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		inside.Done()
		inside.Wait() // all are here at once
		w.WriteHeader(http.StatusNoContent)
	}))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 5}
	server.Start()
	t.Cleanup(server.Close)
	d := newDispatcher(t, "h2c://"+server.Listener.Addr().String())
	var calls sync.WaitGroup
	for range tasks {
		calls.Go(func() {
			if outcome := dispatchFor(t, d, newTask()); outcome.Kind != jobs.OutcomeComplete {
				t.Errorf("%s: %s", outcome.Kind, outcome.Error)
			}
		})
	}
	calls.Wait()
}

// A call that is ended from outside ends in the app, too, and its connection goes on.
func TestHTTP2EndsACall(t *testing.T) {
	t.Parallel()
	begun, ended := make(chan struct{}), make(chan struct{})
	d := newH2App(t, "tcp", func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
		close(ended)
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-begun
		cancel(errors.New("enough"))
	}()
	d.Dispatch(ctx, newTask())
	<-ended
}

// An app that doesn't speak HTTP/2 is told from one that is away: it may have seen
// something.
func TestHTTP2ToAnAppThatDoesNot(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	t.Cleanup(plain.Close)
	outcome := dispatchFor(t, newDispatcher(t, "h2c://"+plain.Listener.Addr().String()), newTask())
	require.Equal(t, jobs.OutcomeRetry, outcome.Kind)
	require.Contains(t, outcome.Error, "no answer from the app at h2c://")

	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	outcome = dispatchFor(t, newDispatcher(t, "h2c://"+listener.Addr().String()), newTask())
	require.Equal(t, jobs.OutcomeHandBack, outcome.Kind)
	require.True(t, outcome.AppDown)
}
