package devpg

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSweep_RemovesOnlyWhatIsAbandoned(t *testing.T) {
	t.Parallel()
	acct := account{uid: os.Geteuid(), gid: os.Getegid()}
	parent := t.TempDir()
	long := time.Now().Add(-2 * sweepAge)
	makeDir := func(name string, age time.Time, files ...string) string {
		dir := filepath.Join(parent, name)
		require.NoError(t, os.Mkdir(dir, 0o700))
		for _, file := range files {
			require.NoError(t, os.WriteFile(filepath.Join(dir, file), nil, 0o600))
		}
		require.NoError(t, os.Chtimes(dir, age, age))
		return dir
	}
	abandonedDir := makeDir("sched-pg-1", long, "lock", temporaryMark)
	kept := []string{
		makeDir("sched-pg-2", time.Now(), "lock", temporaryMark),
		makeDir("sched-pg-3", long, "lock"),
		makeDir("sched-pg-4", long, temporaryMark),
		makeDir("sched-pg-mine", long, "lock", temporaryMark),
	}
	locked := makeDir("sched-pg-5", long, "lock", temporaryMark)
	lock, err := lockDir(t.Context(), filepath.Join(locked, "lock"))
	require.NoError(t, err)
	kept = append(kept, locked)

	sweep(parent, account{uid: acct.uid + 1})
	require.DirExists(t, abandonedDir, "another account's")
	sweep(parent, acct)
	require.NoDirExists(t, abandonedDir)
	for _, dir := range kept {
		require.DirExists(t, dir)
	}
	require.NoError(t, lock.Close())
	// A process that another test starts just now holds the lock, too, between its fork and its exec.
	require.Eventually(t, func() bool {
		sweep(parent, acct)
		_, err := os.Stat(locked)
		return os.IsNotExist(err)
	}, 20*time.Second, 10*time.Millisecond)
}
