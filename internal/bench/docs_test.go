package bench_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/bench"
)

var tableRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\| ([^|]+) \\|")

// documented reads the figures of docs/verify.md.
func documented(t *testing.T) map[string][2]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/verify.md")
	require.NoError(t, err)
	figures := map[string][2]string{}
	for _, row := range tableRow.FindAllStringSubmatch(string(page), -1) {
		require.NotContains(t, figures, row[1], "listed twice")
		figures[row[1]] = [2]string{row[2], row[3]}
	}
	return figures
}

// shared reports whether several commands measure the figures of a scenario.
func shared(scenario string) bool { return scenario == "routing" || scenario == "see" }

// requireDocumented holds docs/verify.md to the figures that were measured.
func requireDocumented(t *testing.T, figures map[string]bench.Figure, bounds map[string]string) {
	t.Helper()
	pages := documented(t)
	scenarios := map[string]bool{}
	for name, figure := range figures {
		require.Containsf(t, pages, name, "%s is not in docs/verify.md", name)
		require.Equal(t, [2]string{figure.Unit, bounds[name]}, pages[name], name)
		if scenario, _, _ := strings.Cut(name, "."); !shared(scenario) {
			scenarios[scenario] = true
		}
	}
	for name := range pages {
		// CPU times are left out where /proc doesn't tell or a tick is too coarse.
		scenario, _, _ := strings.Cut(name, ".")
		if scenarios[scenario] && !strings.Contains(name, "_us_") {
			require.Contains(t, figures, name, "docs/verify.md lists what nothing measures")
		}
	}
}
