//go:build verify

package firstminutes_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// machineBusy is the CPU time that all processes together have had since the machine started, and what its host took from it;
// 0 where /proc can't tell.
func machineBusy(t *testing.T) time.Duration {
	t.Helper()
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	const idle, iowait, steal, tick = 3, 4, 7, 10 * time.Millisecond // of proc(5)
	var busy time.Duration
	for i, field := range strings.Fields(strings.TrimPrefix(line, "cpu")) {
		ticks, err := strconv.ParseInt(field, 10, 64)
		require.NoError(t, err, line)
		if i != idle && i != iowait && i <= steal { // guests' time, which follows, is in user time already
			busy += time.Duration(ticks) * tick
		}
	}
	return busy
}

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
	begun, busy := time.Now(), machineBusy(t)
	untilUp, untilDone, cpu := timeFirstMinutes(t, clone, readme[firstMinutes])
	took, others := time.Since(begun), max(machineBusy(t)-busy-cpu, 0)/time.Duration(runtime.NumCPU())
	t.Logf("built and up after %s; task enqueued, run and seen after %s more; meanwhile others had the machine for %s",
		untilUp.Round(time.Millisecond), untilDone.Round(time.Millisecond), others.Round(time.Millisecond))
	// A reader's machine doesn't run this repository's other tests meanwhile. What waits without computing counts in full.
	require.Less(t, took-others, 5*time.Minute)

	followUse(t, clone, readme[useIt])

	begun = time.Now()
	require.Contains(t, readme[seeItWork][0], "make demo")
	said, err := shell(t, clone, "make demo")
	require.NoError(t, err, said)
	require.Regexp(t, `carryover: 50000 orders, 50000 carried exactly once, 0 lost, 0 twice, `, said)
	t.Logf("make demo took %s", time.Since(begun).Round(time.Millisecond))
}
