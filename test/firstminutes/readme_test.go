package firstminutes_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

const section = "## First five minutes"

// need skips a test on a machine without a program that the README expects of its readers.
func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
}

// root is this repository.
func root(t *testing.T) string {
	t.Helper()
	_, here, _, ok := runtime.Caller(0)
	require.True(t, ok)
	dir := filepath.Dir(filepath.Dir(filepath.Dir(here)))
	require.FileExists(t, filepath.Join(dir, "README.md"))
	return dir
}

// blocks are the section's commands: the first block ends with what stays in the foreground, the second is for another
// terminal.
func blocks(t *testing.T, dir string) (server, client string) {
	t.Helper()
	readme, err := os.ReadFile(filepath.Join(dir, "README.md"))
	require.NoError(t, err)
	_, text, found := strings.Cut(string(readme), "\n"+section+"\n")
	require.True(t, found, "README.md has no section %q", section)
	text, _, _ = strings.Cut(text, "\n## ")
	var all []string
	for {
		_, rest, found := strings.Cut(text, "\n```sh\n")
		if !found {
			break
		}
		block, after, closed := strings.Cut(rest, "\n```")
		require.True(t, closed)
		all, text = append(all, block), after
	}
	require.Len(t, all, 2)
	return all[0], all[1]
}

// The commands word for word on this tree, with the programs built already and the clone spared. The full version is
// TestVerifyREADME.
func TestREADME(t *testing.T) {
	t.Parallel()
	need(t, "bash", "make", "psql", "node")
	server, client := blocks(t, root(t))
	follow(t, workspace(t), server, client)

	// The same app in the other language, one after the other: both take the usual ports.
	const node, python = "node examples/hello/app.js", "python3 examples/hello/app.py"
	require.Contains(t, server, python, "it is offered")
	need(t, "python3")
	follow(t, workspace(t), strings.Replace(server, node, python, 1), client)
}

// workspace is a clone as far as the commands can tell.
func workspace(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Symlink(binDir, filepath.Join(dir, "bin")))
	require.NoError(t, os.Symlink(filepath.Join(root(t), "examples"), filepath.Join(dir, "examples")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "Makefile"), []byte("build:\n\ttest -x bin/sched\n"), 0o600))
	return dir
}

// follow does in dir what the README says, and returns how long each part took.
func follow(t *testing.T, dir, server, client string) (untilUp, untilDone time.Duration) {
	t.Helper()
	data := "SCHED_DEV_DIR=" + dataDir(t)
	begun := time.Now()
	p := launch(t, func(cmd *exec.Cmd) {
		cmd.Dir = dir
		cmd.Env = append(cmd.Env, data)
	}, "bash", "-euo", "pipefail", "-c", server)
	p.await(t, "\n  export DSN=")
	untilUp = time.Since(begun)

	begun = time.Now()
	terminal := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", client)
	terminal.Dir = dir
	terminal.Env = append(environ(), data)
	out, err := terminal.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Regexp(t, `(?m)^Task 1 of kind hello is [a-z]+ `, string(out), "it is explained")
	require.Regexp(t, `(?m)^ +1 \| hello \| [a-z]+ `, string(out), "the task is shown")

	dsn := dsnOf(t, p)
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	var greeting string
	require.Eventually(t, func() bool {
		row := conn.QueryRow(t.Context(), "select output->>'greeting' from sched.task where status = 'completed'")
		return row.Scan(&greeting) == nil
	}, patience, 10*time.Millisecond)
	require.Equal(t, "Hello, Ann!", greeting)
	untilDone = time.Since(begun)
	require.NoError(t, conn.Close(t.Context()))

	p.press(syscall.SIGINT)
	p.exit(t)
	p.requireNothingLeft(t)
	return untilUp, untilDone
}
