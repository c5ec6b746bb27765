package see_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/sched-sidecar/sched/internal/metricsdoc"
	"github.com/sched-sidecar/sched/internal/pgtest"
)

// rule is one of sched.rules.yml: an alert, or what is recorded.
type rule struct {
	Alert, Record, Expr, For string
	Labels, Annotations      map[string]string
}

func rules(t *testing.T) []rule {
	t.Helper()
	text, err := os.ReadFile(rulesFile)
	require.NoError(t, err)
	var file struct{ Groups []struct{ Rules []rule } }
	require.NoError(t, yaml.Unmarshal(text, &file))
	var all []rule
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	require.NotEmpty(t, all)
	return all
}

var (
	quoted = regexp.MustCompile(`"[^"]*"|'[^']*'`)
	series = regexp.MustCompile(`\bsched[_:][a-z0-9_:]+`)
)

// usedBy are the series of ours that an expression names.
func usedBy(expr string) []string { return series.FindAllString(quoted.ReplaceAllString(expr, ""), -1) }

// known are all series that a server has of a fleet: those of the code, and what is recorded of them.
func known(t *testing.T) map[string]bool {
	t.Helper()
	metrics, err := metricsdoc.All(t.Context())
	require.NoError(t, err)
	names := map[string]bool{}
	for _, metric := range metrics {
		for _, name := range metric.Series() {
			names[name] = true
		}
	}
	for _, r := range rules(t) {
		if r.Record != "" {
			names[r.Record] = true
		}
	}
	return names
}

func TestRulesUseMetricsThatExist(t *testing.T) {
	t.Parallel()
	names := known(t)
	used := 0
	for _, r := range rules(t) {
		for _, name := range usedBy(r.Expr) {
			used++
			require.True(t, names[name], "%s%s uses %s, which no sidecar has", r.Alert, r.Record, name)
		}
	}
	require.Greater(t, used, len(rules(t))-2)
	require.Equal(t, []string{"sched_a_total", "sched:b:rate5m"}, usedBy(`rate(sched_a_total{job="sched_c"}[5m]) / sched:b:rate5m`))
}

func TestAlertsLeadToTheRunbook(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(runbookFile)
	require.NoError(t, err)
	tests, err := os.ReadFile(rulesTestFile)
	require.NoError(t, err)
	alerts := 0
	for _, r := range rules(t) {
		if r.Alert == "" {
			continue
		}
		alerts++
		require.Contains(t, []string{"info", "warning", "critical"}, r.Labels["severity"], r.Alert)
		require.NotEmpty(t, r.Annotations["summary"], r.Alert)
		require.NotEmpty(t, r.Annotations["description"], r.Alert)
		require.True(t, strings.HasSuffix(r.Annotations["runbook_url"], "/docs/runbook.md#"+strings.ToLower(r.Alert)), r.Alert)
		_, section, found := strings.Cut(string(text), "\n## "+r.Alert+"\n")
		require.True(t, found, "docs/runbook.md lacks ## %s", r.Alert)
		section, _, _ = strings.Cut(section, "\n## ")
		for _, part := range []string{"**What it means.**", "**How to look.**", "**What to do.**"} {
			require.Contains(t, section, part, r.Alert)
		}
		require.Contains(t, string(tests), "name: "+r.Alert+" fires\n")
		require.Contains(t, string(tests), "name: "+r.Alert+" does not fire\n")
	}
	require.Equal(t, alerts, strings.Count(string(text), "\n## "), "the runbook is about alerts that there are")
}

// Every statement of the runbook runs on the schema that there is.
func TestRunbookSQL(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(runbookFile)
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, blocks)
	pool := pgtest.New(t)
	_, err = pool.Exec(t.Context(), `SELECT sched.enqueue('mail')`) // the task that is asked about
	require.NoError(t, err)
	for _, block := range blocks {
		statements := strings.ReplaceAll(block[1], "explain(ID)", "explain(1)")
		_, err := pool.Exec(t.Context(), statements) // all of them, one after the other
		require.NoError(t, err, statements)
	}
}
