package devpg

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// ownerOf asks ps, so that the test doesn't depend on /proc.
func ownerOf(t *testing.T, pid int) (int, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ps", "-o", "uid=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return 0, fmt.Errorf("ps of %d: %w", pid, err)
	}
	return strconv.Atoi(strings.TrimSpace(string(out)))
}

func TestProcessAlive(t *testing.T) {
	t.Parallel()
	require.True(t, processAlive(os.Getpid()))
	require.False(t, processAlive(0))

	cmd := exec.CommandContext(t.Context(), "true")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = out.Read(make([]byte, 1))
	require.Error(t, err, "end of file: it has ended, and is a zombie until we wait for it")
	require.Eventually(t, func() bool { return !processAlive(cmd.Process.Pid) }, patience, pollEvery)
	require.NoError(t, cmd.Wait())
}

func TestChildrenOf(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "cat")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	require.Contains(t, childrenOf(os.Getpid()), cmd.Process.Pid)
	require.Contains(t, childrenByPs(os.Getpid()), cmd.Process.Pid)
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
	require.NotContains(t, childrenOf(os.Getpid()), cmd.Process.Pid)
}
