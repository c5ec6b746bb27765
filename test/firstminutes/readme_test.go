package firstminutes_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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

// The README's commands word for word on this tree, with the programs built already and the clone spared. The full
// version is TestVerifyREADME.
func TestREADME(t *testing.T) {
	t.Parallel()
	for section, blocks := range commands(t, root(t)) {
		t.Run(section, func(t *testing.T) {
			t.Parallel()
			need(t, "bash", "make", "psql", "node")
			follow := followers[section]
			require.NotNil(t, follow, "README.md has commands that no test runs")
			follow(t, workspace(t), blocks)
		})
	}
}

// The same app in the other language.
func TestREADMEInPython(t *testing.T) {
	t.Parallel()
	need(t, "bash", "make", "psql", "python3")
	blocks := commands(t, root(t))[firstMinutes]
	const node, python = "node examples/hello/app.js", "python3 examples/hello/app.py"
	require.Contains(t, blocks[0], python, "it is offered")
	followFirstMinutes(t, workspace(t), append([]string{strings.Replace(blocks[0], node, python, 1)}, blocks[1:]...))
}

// workspace is a clone as far as the commands can tell.
func workspace(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Symlink(binDir, filepath.Join(dir, "bin")))
	require.NoError(t, os.Symlink(filepath.Join(root(t), "examples"), filepath.Join(dir, "examples")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "Makefile"), []byte(".PHONY: bin\nbin:\n\ttest -x bin/sched\n"), 0o600))
	return dir
}
