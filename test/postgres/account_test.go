package postgres_test

import (
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Servers refuse to run as root. As root, they and what belongs to them are
// somebody else's: the account that devpg takes too.

// unprivileged makes a command run as that account.
func unprivileged(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if uid, gid, drop := serverAccount(t); drop {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
}

// serverDir makes a directory that belongs to that account and goes with the test.
func serverDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "schedtest") //nolint:usetesting // t.TempDir's parent is ours alone
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	give(t, dir)
	return dir
}

// give makes a path that account's.
func give(t *testing.T, path string) {
	t.Helper()
	if uid, gid, drop := serverAccount(t); drop {
		require.NoError(t, os.Chown(path, uid, gid))
	}
}

func serverAccount(t *testing.T) (uid, gid int, drop bool) {
	t.Helper()
	if os.Geteuid() != 0 {
		return 0, 0, false
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, err := strconv.Atoi(u.Uid)
			require.NoError(t, err)
			gid, err := strconv.Atoi(u.Gid)
			require.NoError(t, err)
			return uid, gid, true
		}
	}
	require.FailNow(t, "there is no user postgres or nobody")
	return 0, 0, false
}
