//go:build verify

package see_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// program finds one of the package prometheus, or skips the test.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is missing: install Debian's package prometheus (make verify does, as root)", name)
	}
	return path
}

func TestVerify_RulesAreValid(t *testing.T) {
	t.Parallel()
	promtool := program(t, "promtool")
	for _, arguments := range [][]string{
		{"check", "rules", filepath.Base(rulesFile)},
		{"check", "config", "--syntax-only", "prometheus.yml"},
	} {
		command := exec.CommandContext(t.Context(), promtool, arguments...)
		command.Dir = filepath.Dir(rulesFile)
		out, err := command.CombinedOutput()
		require.NoError(t, err, "%v: %s", arguments, out)
	}
}

// Each alert fires when it should, and only then.
func TestVerify_AlertsFire(t *testing.T) {
	t.Parallel()
	command := exec.CommandContext(t.Context(), program(t, "promtool"), "test", "rules", filepath.Base(rulesTestFile))
	command.Dir = filepath.Dir(rulesTestFile)
	out, err := command.CombinedOutput()
	require.NoError(t, err, string(out))
}
