package httpapp_test

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/sidecar/dispatch"
	"github.com/sched-sidecar/sched/sidecar/httpapp"
)

// A Unix socket refuses a connection at once when its queue is full, where TCP waits.
// That is an app which is busy, not one that is down.
func TestBurstOverAUnixSocketWithAShortQueue(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "q") //nolint:usetesting // t.TempDir is too long for a socket's path
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}))
	require.NoError(t, syscall.Listen(fd, 1))
	file := os.NewFile(uintptr(fd), path)
	listener, err := net.FileListener(file)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })

	d, err := httpapp.New(httpapp.Config{URL: "unix://" + path})
	require.NoError(t, err)
	defer d.Close()
	var down atomic.Int64
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			if outcome := d.Dispatch(t.Context(), &dispatch.Task{ID: 1, Kind: "k"}); outcome.Kind != jobs.OutcomeComplete {
				down.Add(1)
			}
		})
	}
	wg.Wait()
	require.Zero(t, down.Load(), "calls that found the queue full")
}
