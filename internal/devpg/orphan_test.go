package devpg

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// parentVariable makes this test binary a process that starts a server, says so and waits to be killed.
const parentVariable = "DEVPG_TEST_PARENT"

func TestMain(m *testing.M) {
	if dir, ok := os.LookupEnv(parentVariable); ok {
		parent(dir)
	}
	goleak.VerifyTestMain(m)
}

func parent(dir string) {
	s, err := Start(context.Background(), Options{Fast: true, NoInstall: true, Dir: dir})
	if err != nil {
		panic(err)
	}
	if _, err := fmt.Fprintln(os.Stdout, "serving", s.Pid(), s.sup.cmd.Process.Pid, s.Dir()); err != nil {
		panic(err)
	}
	select {}
}

type child struct {
	cmd                *exec.Cmd
	server, supervisor int
	dir                string
}

func startParent(t *testing.T, dir string) child {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), parentVariable+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	fields := strings.Fields(line)
	require.Len(t, fields, 4, line)
	c := child{cmd: cmd, dir: fields[3]}
	c.server, err = strconv.Atoi(fields[1])
	require.NoError(t, err)
	c.supervisor, err = strconv.Atoi(fields[2])
	require.NoError(t, err)
	return c
}

func TestServer_DiesWithKilledParent(t *testing.T) {
	t.Parallel()
	c := startParent(t, "")
	processes := append(childrenOf(c.server), c.server, c.supervisor)
	require.True(t, processAlive(c.server))
	require.True(t, processAlive(c.supervisor))

	require.NoError(t, c.cmd.Process.Kill())
	require.Eventually(t, func() bool {
		for _, pid := range processes {
			if processAlive(pid) {
				return false
			}
		}
		return true
	}, patience, 10*time.Millisecond, "processes outlive their owner")
	require.NoDirExists(t, c.dir, "the supervisor, whose end we saw, removes the temporary directory")
}

func TestStart_RecoversAfterEverythingWasKilled(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(tempDir(t), "kept")
	c := startParent(t, dir)
	// All of them at once, as the kernel would when memory runs out: nobody is left to tidy up.
	victims := append(childrenOf(c.server), c.server, c.supervisor)
	victims = append(victims, childrenOf(c.supervisor)...)
	require.NoError(t, c.cmd.Process.Kill())
	for _, pid := range victims {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}

	s := start(t, Options{Dir: dir, Fast: true})
	require.Equal(t, 1, query[int](t, s.DSN(), "SELECT 1"))
}

func TestServer_KeptDirIsFreeAfterParentWasKilled(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(tempDir(t), "kept")
	c := startParent(t, dir)
	require.NoError(t, c.cmd.Process.Kill())

	// At once: the old server is still shutting down, and this start waits for it.
	s := start(t, Options{Dir: dir, Fast: true})
	require.False(t, processAlive(c.server))
	require.Equal(t, 1, query[int](t, s.DSN(), "SELECT 1"))
}
