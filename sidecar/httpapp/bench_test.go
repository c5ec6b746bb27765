package httpapp

import (
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/jobs"
)

// BenchmarkDispatch measures whole round trips, the app's side of them (a Go
// handler in this process) included.
func BenchmarkDispatch(b *testing.B) {
	for _, network := range []string{"tcp", "unix"} {
		b.Run(network, func(b *testing.B) {
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			url := "http://" + server.Listener.Addr().String()
			if network == "unix" {
				socket := filepath.Join(b.TempDir(), "app.sock")
				listener, err := new(net.ListenConfig).Listen(b.Context(), "unix", socket)
				require.NoError(b, err)
				require.NoError(b, server.Listener.Close())
				server.Listener, url = listener, "unix://"+socket
			}
			server.Start()
			b.Cleanup(server.Close)
			d := newDispatcher(b, url)
			b.ReportAllocs()
			b.SetParallelism(50)
			b.RunParallel(func(pb *testing.PB) {
				task := newTask()
				for pb.Next() {
					if got := d.Dispatch(b.Context(), task); got.Kind != jobs.OutcomeComplete {
						b.Errorf("%s: %s", got.Kind, got.Error)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}

// BenchmarkRequest measures what is ours of it: making the request.
func BenchmarkRequest(b *testing.B) {
	for name, secrets := range map[string][]string{"plain": nil, "signed": {vectorSecret}} {
		b.Run(name, func(b *testing.B) {
			d := newDispatcher(b, "http://app.local/tasks", withSecrets(secrets...))
			task := newTask()
			b.ReportAllocs()
			for b.Loop() {
				d.post(task, noon())
			}
		})
	}
}
