package metricsdoc

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/sched-sidecar/sched/internal/app"
)

// Metric is one of a sidecar's metrics.
type Metric struct {
	Name   string
	Type   string // counter, gauge or histogram
	Labels []string
	Help   string
}

// Series are the names under which a server stores the metric in its classic form.
func (m Metric) Series() []string {
	if m.Type != "histogram" {
		return []string{m.Name}
	}
	return []string{m.Name, m.Name + "_bucket", m.Name + "_sum", m.Name + "_count"}
}

// All returns the metrics of a sidecar that has everything, by name.
func All(ctx context.Context) ([]Metric, error) {
	r := &recorder{}
	if err := app.RegisterMetrics(ctx, r, app.Options{Logger: slog.New(slog.DiscardHandler), Version: "1.0.0"}); err != nil {
		return nil, fmt.Errorf("register all metrics: %w", err)
	}
	return r.metrics()
}

// recorder is a registry that remembers what is registered, series or not.
type recorder struct {
	collectors []prometheus.Collector
}

// MustRegister implements [prometheus.Registerer].
func (r *recorder) MustRegister(collectors ...prometheus.Collector) {
	r.collectors = append(r.collectors, collectors...)
}

// Register implements [prometheus.Registerer].
func (r *recorder) Register(collector prometheus.Collector) error {
	r.MustRegister(collector)
	return nil
}

// Unregister implements [prometheus.Registerer].
func (*recorder) Unregister(prometheus.Collector) bool { return false }

// metrics describes what was registered, by name. Only now: what a metric reads need
// not be there while it is registered.
func (r *recorder) metrics() ([]Metric, error) {
	var all []Metric
	for _, collector := range r.collectors {
		descs := make(chan *prometheus.Desc, 100)
		collector.Describe(descs)
		close(descs)
		for desc := range descs {
			m, err := describe(collector, desc)
			if err != nil {
				return nil, err
			}
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b Metric) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(all, func(a, b Metric) bool { return a.Name == b.Name }), nil
}

// description is how client_golang writes a Desc down: what it holds is private.
var description = regexp.MustCompile(`^Desc\{fqName: "([^"]+)", help: "(.*?)", (?:unit: "[^"]*", )?constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

func describe(collector prometheus.Collector, desc *prometheus.Desc) (m Metric, err error) {
	parts := description.FindStringSubmatch(desc.String())
	if parts == nil {
		return m, fmt.Errorf("%s isn't as client_golang wrote descriptions", desc)
	}
	m = Metric{Name: parts[1], Help: strings.ReplaceAll(parts[2], `\"`, `"`)}
	for label := range strings.SplitSeq(parts[3], ",") {
		if name, _, found := strings.Cut(label, "="); found {
			m.Labels = append(m.Labels, name)
		}
	}
	if parts[4] != "" {
		m.Labels = append(m.Labels, strings.Split(parts[4], ",")...)
	}
	m.Type, err = typeOf(collector, desc)
	return m, err
}

// typeOf finds the type out: by the collector's own, also while it has no series, or
// by what it collects.
func typeOf(collector prometheus.Collector, desc *prometheus.Desc) (string, error) {
	switch collector.(type) {
	case *prometheus.CounterVec:
		return "counter", nil
	case *prometheus.GaugeVec:
		return "gauge", nil
	case *prometheus.HistogramVec:
		return "histogram", nil
	}
	metrics := make(chan prometheus.Metric, 100)
	collector.Collect(metrics)
	close(metrics)
	for metric := range metrics {
		if metric.Desc() != desc {
			continue
		}
		var written dto.Metric
		if err := metric.Write(&written); err != nil {
			return "", fmt.Errorf("%s: %w", desc, err)
		}
		switch {
		case written.Counter != nil:
			return "counter", nil
		case written.Gauge != nil:
			return "gauge", nil
		case written.Histogram != nil:
			return "histogram", nil
		}
	}
	return "", fmt.Errorf("%s has a type that isn't known", desc)
}
