// Package metricsdoc describes the metrics of a sidecar from its code: what is registered, with names, types,
// labels and help. docs/metrics.md is written from that, and tests hold rules and dashboards to it.
//
// Nothing is started, and no database is needed.
package metricsdoc

//go:generate go test . -run TestDocs -update
