//go:build verify

package firstminutes_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The README's first five minutes, word for word, from a clean clone of this repository's HEAD.
func TestVerifyREADME(t *testing.T) {
	t.Parallel()
	need(t, "git", "bash", "make", "psql", "node")
	if _, err := os.Stat(filepath.Join(root(t), ".git")); err != nil {
		t.Skip("this is no clone: there is no HEAD to clone")
	}
	clone := filepath.Join(t.TempDir(), "sched")
	cmd := exec.CommandContext(t.Context(), "git", "clone", "--quiet", "--no-hardlinks", root(t), clone)
	// The tree may be another user's.
	cmd.Env = append(os.Environ(), "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))

	server, client := blocks(t, clone)
	begun := time.Now()
	untilUp, untilDone := follow(t, clone, server, client)
	t.Logf("built and up after %s; task enqueued, run and seen after %s more", untilUp.Round(time.Millisecond), untilDone.Round(time.Millisecond))
	require.Less(t, time.Since(begun), 5*time.Minute)
}
