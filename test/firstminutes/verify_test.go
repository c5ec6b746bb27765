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

// The README's commands, word for word, from a clean clone of this repository's HEAD.
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

	readme := commands(t, clone)
	begun := time.Now()
	untilUp, untilDone := timeFirstMinutes(t, clone, readme[firstMinutes])
	t.Logf("built and up after %s; task enqueued, run and seen after %s more", untilUp.Round(time.Millisecond), untilDone.Round(time.Millisecond))
	require.Less(t, time.Since(begun), 5*time.Minute)

	followUse(t, clone, readme[useIt])

	begun = time.Now()
	require.Contains(t, readme[seeItWork][0], "make demo")
	said, err := shell(t, clone, "make demo")
	require.NoError(t, err, said)
	require.Regexp(t, `carryover: 50000 orders, 50000 carried exactly once, 0 lost, 0 twice, `, said)
	t.Logf("make demo took %s", time.Since(begun).Round(time.Millisecond))
}
