package schedule

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sched-sidecar/sched/internal/histogram"
)

// metrics are the runner's own; see docs/metrics.md.
type metrics struct {
	runs            *prometheus.CounterVec
	late            prometheus.Histogram
	waiting, failed prometheus.Gauge
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "sched", Name: "schedule_turns_total",
			Help: "Schedules that were due when this sidecar, leading, looked, by what came of it: ran, waiting (at red pressure), failed.",
		}, []string{"outcome"}),
		late: prometheus.NewHistogram(histogram.Of("schedule_lateness_seconds", "From the time a schedule was due to its task.",
			[]float64{0.25, 0.5, 1, 2, 5, 15, 60, 300, 900, 3600})),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "sched", Name: "schedules_waiting", Help: "Schedules that are due and wait for pressure to fall, as this sidecar, leading, saw them last.",
		}),
		failed: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "sched", Name: "schedules_failed", Help: "Schedules that are marked with an error, as this sidecar, leading, saw them last.",
		}),
	}
	registerer.MustRegister(m.runs, m.late, m.waiting, m.failed)
	for _, outcome := range []string{ran, waiting, failed} {
		m.runs.WithLabelValues(outcome)
	}
	return m
}
