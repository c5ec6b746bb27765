package supervise

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOwnerKilledWithoutAShell(t *testing.T) {
	t.Parallel()
	dir := killParent(t, "/no/shell", `trap '' TERM; echo $$ >$dir/up; while :; do sleep 0.05; done`)
	awaitEnd(t, awaitPid(t, filepath.Join(dir, "up")))
}

func TestWithoutAShell(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p, err := start(Command{
		Args: []string{shell, "-c", `sh -c 'echo $$ >$dir/child; while :; do sleep 0.05; done'; :`}, Env: []string{"dir=" + dir, "PATH=/usr/bin:/bin"},
	}, "/no/shell")
	require.NoError(t, err)
	require.Nil(t, p.guard)
	child := awaitPid(t, filepath.Join(dir, "child"))
	stop(t, p, 5*time.Second)
	require.False(t, runs(child))
	require.Equal(t, 143, p.Exit().Code())
	stop(t, p, 0) // once more does no harm
}
