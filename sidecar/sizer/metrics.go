package sizer

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sched-sidecar/sched/elastic"
)

// metrics are the sizer's own; see docs/metrics.md.
type metrics struct {
	errorRatio, arrivals, forecast, service, demand, want, scaleOut prometheus.Gauge
	score, reason                                                   *prometheus.GaugeVec
	changes                                                         *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "sched", Name: name, Help: help})
	}
	m := &metrics{
		errorRatio: gauge("qps_prediction_error_ratio", "(actual - predicted) / actual arrivals of the last second; without traffic 0, or -1 when some was predicted."),
		arrivals:   gauge("elastic_arrivals_per_second", "Tasks a second that came due: this worker's share."),
		forecast:   gauge("elastic_forecast_per_second", "Tasks a second that are expected."),
		service:    gauge("elastic_service_seconds", "Time that a task holds a slot."),
		demand:     gauge("elastic_demand_slots", "Slots that what arrives and what waits take."),
		want:       gauge("elastic_wanted_slots", "Those slots and a reserve: what the slots are moved to, within their bounds."),
		scaleOut:   gauge("elastic_scale_out", "1 while this worker should have more slots and has no cpu or memory for them."),
		score: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "sched", Name: "elastic_score", Help: "Joint score by part: cpu, mem and pending, which add up to total.",
		}, []string{"part"}),
		reason: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "sched", Name: "elastic_reason", Help: "1 for what decided about slots last.",
		}, []string{"reason"}),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "sched", Name: "elastic_changes_total", Help: "Times the slots were moved, by reason.",
		}, []string{"reason"}),
	}
	for _, reason := range elastic.Reasons() {
		m.changes.WithLabelValues(string(reason)) // a series that starts at zero
	}
	registerer.MustRegister(m.errorRatio, m.arrivals, m.forecast, m.service, m.demand, m.want, m.scaleOut, m.score, m.reason, m.changes)
	return m
}

func (m *metrics) observe(s elastic.Sample, d elastic.Decision) {
	for _, reason := range elastic.Reasons() {
		m.reason.WithLabelValues(string(reason)).Set(0)
	}
	m.reason.WithLabelValues(string(d.Reason)).Set(1)
	m.scaleOut.Set(0)
	if d.ScaleOut {
		m.scaleOut.Set(1)
	}
	if d.Reason == elastic.ReasonStale || d.Reason == elastic.ReasonFrozen {
		return
	}
	m.errorRatio.Set(d.ErrorRatio)
	m.arrivals.Set(s.Arrivals)
	m.forecast.Set(d.Forecast)
	m.service.Set(d.Service.Seconds())
	m.demand.Set(d.Demand)
	m.want.Set(float64(d.Want))
	for part, value := range map[string]float64{"cpu": d.Score.CPU, "mem": d.Score.Mem, "pending": d.Score.Pending, "total": d.Score.Total} {
		m.score.WithLabelValues(part).Set(value)
	}
}
