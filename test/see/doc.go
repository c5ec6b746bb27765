// Package see holds what watches a fleet from outside, deploy/prometheus, deploy/grafana and docs/runbook.md, to the
// metrics and the schema that there are. Under the tag verify it runs Debian's Prometheus: promtool on the rules, and a
// server that scrapes real sidecars and is asked every query of the dashboard.
package see
