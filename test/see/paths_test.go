package see_test

// Where things are, from here.
const (
	rulesFile     = "../../deploy/prometheus/sched.rules.yml"
	rulesTestFile = "../../deploy/prometheus/sched.rules.test.yml"
	runbookFile   = "../../docs/runbook.md"
	dashboardFile = "../../deploy/grafana/dashboards/sched-prometheus.json"
	provisioning  = "../../deploy/grafana/provisioning"
	composeFile   = "../../deploy/compose/compose.yml"
	kubernetes    = "../../deploy/kubernetes"
)
