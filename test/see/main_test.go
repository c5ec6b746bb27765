package see_test

import (
	"testing"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// Where things are, from here.
const (
	rulesFile     = "../../deploy/prometheus/sched.rules.yml"
	rulesTestFile = "../../deploy/prometheus/sched.rules.test.yml"
	runbookFile   = "../../docs/runbook.md"
	dashboardFile = "../../deploy/grafana/dashboards/sched-prometheus.json"
)
