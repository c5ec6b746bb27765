package httpapp

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func withHealth(path string) func(*Config) {
	return func(c *Config) { c.HealthPath = path }
}

func TestProbeConnects(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("no request was due") }))
	d := newDispatcher(t, server.URL)
	require.NoError(t, d.Probe(t.Context()))

	server.Close()
	err := d.Probe(t.Context())
	require.ErrorContains(t, err, "the app at "+server.URL+" accepts no connection")
}

func TestProbeTakesAnyAnswer(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 302, 401, 404, 500, 503} {
		seen := make(chan received, 2)
		d := newApp(t, func(w http.ResponseWriter, r *http.Request) {
			seen <- received{method: r.Method, path: r.URL.RequestURI(), header: r.Header}
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
		}, withHealth("/healthz?deep=1"), func(c *Config) { c.URL += "/tasks" })
		require.NoError(t, d.Probe(t.Context()), status)
		r := <-seen
		require.Equal(t, "GET /healthz?deep=1", r.method+" "+r.path, "the path is of the host, not below the app's URL")
		require.Empty(t, seen, "a redirect is an answer")
	}
}

func TestProbeOfAHungApp(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	// The kernel accepts connections that nobody will ever serve.
	url := "http://" + listener.Addr().String()
	require.NoError(t, newDispatcher(t, url).Probe(t.Context()))
	d := newDispatcher(t, url, withHealth("/healthz"), func(c *Config) { c.HealthTimeout = 20 * time.Millisecond })
	require.ErrorContains(t, d.Probe(t.Context()), "does not answer GET /healthz")
}

// TestProbeDoesNotQueue probes while all connections are busy: a busy app is
// not down.
func TestProbeDoesNotQueue(t *testing.T) {
	t.Parallel()
	working, finish := make(chan struct{}), make(chan struct{})
	d := newApp(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			close(working)
			<-finish
		}
	}, withHealth("/healthz"), func(c *Config) { c.MaxConns = 1 })
	done := make(chan struct{})
	go func() {
		defer close(done)
		dispatchFor(t, d, newTask())
	}()
	<-working
	require.NoError(t, d.Probe(t.Context()))
	close(finish)
	<-done
}
