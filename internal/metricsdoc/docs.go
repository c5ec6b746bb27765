package metricsdoc

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The marks between which docs/metrics.md is written.
const (
	tableBegin = "<!-- Written by \"make generate\" from the code: edit the help of the metrics there. -->\n"
	tableEnd   = "<!-- The end of what is written from the code. -->\n"
)

// section is a part of the table, of the metrics that begin like this.
type section struct {
	title    string
	prefixes []string // after sched_
}

// sections are in the order in which they are matched and shown. The first one takes what is left.
func sections() []section {
	return []section{
		{"Tasks, slots and claims", nil},
		{"The fleet, by its leader", []string{
			"fleet_", "queue_pressure", "queue_pending", "queue_oldest", "queue_paused", "queues_unroutable", "tasks_unroutable", "topology_", "assignments",
			"routing_", "worker_evictions", "tasks_rescued", "tasks_enqueued", "notifications_", "leading", "foreign_leader", "decisions_",
		}},
		{"Elastic slots", []string{"elastic_", "qps_"}},
		{"Schedules", []string{"schedule"}},
		{"Postgres", []string{"postgres_", "river_job_", "heartbeat_", "listening", "policy_", "fences"}},
		{"This process", []string{"build_info", "app_"}},
	}
}

func (s section) has(name string) bool {
	return slices.ContainsFunc(s.prefixes, func(prefix string) bool { return strings.HasPrefix(name, "sched_"+prefix) })
}

// table writes the metrics down in sections.
func table(metrics []Metric) string {
	all := sections()
	bySection := make([][]Metric, len(all))
	for _, m := range metrics {
		at := max(0, slices.IndexFunc(all, func(s section) bool { return s.has(m.Name) }))
		bySection[at] = append(bySection[at], m)
	}
	var b strings.Builder
	for i, s := range all {
		fmt.Fprintf(&b, "\n### %s\n\n| metric | type | meaning |\n|---|---|---|\n", s.title)
		for _, m := range bySection[i] {
			name := m.Name
			if len(m.Labels) > 0 {
				name += "{" + strings.Join(m.Labels, ",") + "}"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, m.Type, strings.ReplaceAll(m.Help, "|", "\\|"))
		}
	}
	return b.String() + "\n"
}

// errMarks: the page has lost the marks that the table is between.
var errMarks = errors.New("the page lacks the two comments between which the table of metrics belongs")

// rewrite returns the page with the table of these metrics in it.
func rewrite(page string, metrics []Metric) (string, error) {
	before, rest, begins := strings.Cut(page, tableBegin)
	_, after, ends := strings.Cut(rest, tableEnd)
	if !begins || !ends {
		return "", errMarks
	}
	return before + tableBegin + table(metrics) + tableEnd + after, nil
}
