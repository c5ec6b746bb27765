//go:build verify

package recipes_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/apt"
)

// TestVerifyRecipes runs every recipe, none skipped: what is missing is installed from Debian's packages first.
func TestVerifyRecipes(t *testing.T) {
	t.Parallel()
	if !apt.Available() {
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
		require.NoError(t, apt.Install(t.Context(), packages...))
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
