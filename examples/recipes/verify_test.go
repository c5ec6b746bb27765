//go:build verify

package recipes_test

import (
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestVerifyRecipes runs every recipe, none skipped: what is missing is installed from Debian's packages first.
func TestVerifyRecipes(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		t.Skip("can't install what is missing: this needs root and apt-get")
	}
	var packages []string
	for _, r := range recipes {
		if _, missing := r.prepare(t); missing != "" {
			t.Logf("%s: %s", r.name, missing)
			packages = append(packages, r.debian...)
		}
	}
	if len(packages) > 0 {
		slices.Sort(packages)
		packages = slices.Compact(packages)
		t.Logf("installing with apt-get: %v", packages)
		apt(t, "update", "-qq")
		apt(t, append([]string{"install", "-y", "-qq", "--no-install-recommends"}, packages...)...)
	}
	for _, r := range recipes {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			command, missing := r.prepare(t)
			require.Empty(t, missing)
			runRecipe(t, command, r.base)
		})
	}
}

func apt(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "apt-get", append([]string{"-o", "DPkg::Lock::Timeout=300"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}
