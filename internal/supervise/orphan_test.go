package supervise

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// parentVariable makes this test binary a process that starts a script and waits to be killed; shellVariable is the
// guard's shell.
const (
	parentVariable = "SUPERVISE_TEST_PARENT"
	shellVariable  = "SUPERVISE_TEST_SHELL"
)

func TestMain(m *testing.M) {
	if text, ok := os.LookupEnv(parentVariable); ok {
		if _, err := start(Command{Args: []string{shell, "-c", text}}, os.Getenv(shellVariable)); err != nil {
			panic(err)
		}
		select {}
	}
	goleak.VerifyTestMain(m)
}

// killParent runs a script under a process that gets SIGKILL once the script has written $dir/up. It returns $dir.
func killParent(t *testing.T, guardShell, text string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), parentVariable+"="+text, shellVariable+"="+guardShell, "dir="+dir)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	awaitFile(t, filepath.Join(dir, "up"))
	require.NoError(t, cmd.Process.Kill())
	return dir
}

func TestOwnerKilled(t *testing.T) {
	t.Parallel()
	dir := killParent(t, shell, `trap 'echo bye >$dir/bye; exit' TERM; sleep 600 & echo $! >$dir/child; echo $$ >$dir/up; while :; do sleep 0.05; done`)
	require.Equal(t, "bye", awaitFile(t, filepath.Join(dir, "bye")), "it is asked first")
	awaitEnd(t, awaitPid(t, filepath.Join(dir, "up")), awaitPid(t, filepath.Join(dir, "child")))
}

func TestOwnerOfAStubbornCommandKilled(t *testing.T) {
	t.Parallel()
	dir := killParent(t, shell, `trap '' TERM; sh -c 'echo $$ >$dir/child; while :; do sleep 0.05; done' & echo $$ >$dir/up; while :; do sleep 0.05; done`)
	awaitEnd(t, awaitPid(t, filepath.Join(dir, "up")), awaitPid(t, filepath.Join(dir, "child")))
}
