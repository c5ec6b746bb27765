package hello_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/examples/hello"
	"github.com/sched-sidecar/sched/internal/fleettest"
	"github.com/sched-sidecar/sched/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// Both apps keep to the contract of docs/http.md.
func TestApps(t *testing.T) {
	t.Parallel()
	for name, command := range map[string][]string{"node": {"node", "app.js"}, "python": {"python3", "app.py"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(command[0]); err != nil {
				t.Skipf("%s is not installed", command[0])
			}
			addr := startApp(t, command)
			status, body := post(t, addr, "/hello", `{"name": "Änn 👋"}`)
			require.Equal(t, http.StatusOK, status)
			require.JSONEq(t, `{"greeting": "Hello, Änn 👋!"}`, body)
			status, _ = post(t, addr, "/goodbye", `{}`)
			require.Equal(t, http.StatusNotFound, status, "a kind that it lacks")
			status, body = post(t, addr, "/hello", `[`)
			require.Equal(t, http.StatusInternalServerError, status, "a task that fails")
			require.Contains(t, body, "JSON")
			status, _ = post(t, addr, "/hello", `{"name": "Bob"}`)
			require.Equal(t, http.StatusOK, status, "and that harmed nobody else")
		})
	}
}

func TestAppsAreShort(t *testing.T) {
	t.Parallel()
	for _, text := range []string{hello.Node, hello.Python} {
		require.LessOrEqual(t, strings.Count(text, "\n"), 20)
	}
}

func startApp(t *testing.T, command []string) (addr string) {
	t.Helper()
	addr = fleettest.FreeAddress(t)
	var log bytes.Buffer
	cmd := exec.CommandContext(context.Background(), command[0], command[1:]...)
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	cmd.Env = append(os.Environ(), "PORT="+port)
	cmd.Stdout, cmd.Stderr = &log, &log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("app on port %s, pid %s:\n%s", port, strconv.Itoa(cmd.Process.Pid), log.String())
		}
	})
	require.Eventually(t, func() bool {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		return err == nil && conn.Close() == nil
	}, time.Minute, 20*time.Millisecond)
	return addr
}

func post(t *testing.T, addr, path, body string) (status int, answer string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+path, strings.NewReader(body))
	require.NoError(t, err)
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(text)
}
