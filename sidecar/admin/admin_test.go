package admin_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sched-sidecar/sched/sidecar/admin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The bare address leads people to the console, and tells programs what there is.
func TestRoot(t *testing.T) {
	t.Parallel()
	server, err := admin.Listen(t.Context(), admin.Config{
		Addr: "127.0.0.1:0", Gatherer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
		Console: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "console at "+r.URL.Path) }),
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx) }()
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
		client.CloseIdleConnections()
	})
	for accept, want := range map[string]string{"text/html,*/*": "console at /console/", "*/*": "/metrics"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+server.Addr()+"/", nil)
		require.NoError(t, err)
		r.Header.Set("Accept", accept)
		response, err := client.Do(r)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Contains(t, string(body), want)
	}
}
