//go:build verify

package protocols_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/fleettest"
	"github.com/sched-sidecar/sched/internal/pgtest"
)

// The example in another language speaks the protocol as it is now.
func TestVerifyNodeExample(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node isn't installed (Debian: apt-get install nodejs npm)")
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("npm isn't installed (Debian: apt-get install npm)")
	}
	dir := t.TempDir()
	for _, file := range []string{"app.js", "package.json"} {
		text, err := os.ReadFile(filepath.Join("../../examples/session-node", file))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), text, 0o600))
	}
	install := exec.CommandContext(t.Context(), npm, "install", "--no-audit", "--no-fund")
	install.Dir = dir
	out, err := install.CombinedOutput()
	require.NoErrorf(t, err, "npm install: %s", out)
	proto, err := filepath.Abs("../../proto")
	require.NoError(t, err)

	f := &fleet{protocol: "grpc", db: pgtest.New(t)}
	f.dsn = pgtest.DSN(f.db)
	sockets, err := os.MkdirTemp("", "p") //nolint:usetesting // t.TempDir is too long for a socket's path
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(sockets) })
	f.dir = sockets
	fleettest.Exec(t, node, fleettest.Settings{"SCHED_TARGET": f.socket("s"), "SCHED_PROTO": proto}, filepath.Join(dir, "app.js"))
	f.start(t, nil)
	var id int64
	require.NoError(t, f.db.QueryRow(t.Context(), `SELECT sched.enqueue('hello', '{"name": "Ann"}')`).Scan(&id))
	require.JSONEq(t, `{"greeting": "Hello, Ann!"}`, f.await(t, id, "completed").output)
}
