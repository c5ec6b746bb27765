package routing

import (
	"cmp"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// queuesShown bounds the queues with series of their own: those with the most
// waiting tasks.
const queuesShown = 50

// metrics are those of the leader; see docs/metrics.md. Whoever doesn't lead shows
// zeros, and no queue.
type metrics struct {
	fleetPressure, fleetPending, fleetLoad     prometheus.Gauge
	unroutableQueues, unroutableTasks          prometheus.Gauge
	topologyVersion, assignments, workersAtAll prometheus.Gauge
	desiredWorkers                             prometheus.Gauge
	queuePressure, queuePending                *prometheus.GaugeVec
	workers                                    *prometheus.GaugeVec
	turnSeconds                                prometheus.Histogram
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "sched", Name: name, Help: help})
	}
	vec := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "sched", Name: name, Help: help}, labels)
	}
	m := &metrics{
		fleetPressure:    gauge("fleet_pressure", "Pressure of the fleet: 0 green, 1 yellow, 2 red. By the leader, as those below."),
		fleetPending:     gauge("fleet_pending", "Tasks available and due over all queues, counted up to max_pending."),
		fleetLoad:        gauge("fleet_load", "Mean running / ceiling of the workers that take tasks, 0 to 1."),
		unroutableQueues: gauge("queues_unroutable", "Queues that ask for something that no live worker offers."),
		unroutableTasks:  gauge("tasks_unroutable", "Tasks that wait in such queues, each counted up to its max_pending."),
		topologyVersion:  gauge("topology_version", "Version of the newest topology."),
		assignments:      gauge("assignments", "Rows of sched.assignment."),
		workersAtAll:     gauge("fleet_slots", "Sum of the slots of all live workers."),
		desiredWorkers:   gauge("fleet_desired_workers", "Workers that the fleet should have, as sched.fleet_demand has it."),
		queuePressure:    vec("queue_pressure", "Pressure of the 50 queues with the most waiting tasks: 0 green, 1 yellow, 2 red.", "queue"),
		queuePending:     vec("queue_pending", "Tasks available and due in these queues, counted up to max_pending.", "queue"),
		workers:          vec("fleet_workers", "Live workers by health.", "health"),
		turnSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "sched", Name: "routing_turn_seconds", Help: "Duration of the leader's routing turn.", Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 10),
		}),
	}
	registerer.MustRegister(m.fleetPressure, m.fleetPending, m.fleetLoad, m.unroutableQueues, m.unroutableTasks, m.topologyVersion,
		m.assignments, m.workersAtAll, m.desiredWorkers, m.queuePressure, m.queuePending, m.workers, m.turnSeconds)
	return m
}

func (m *metrics) reset() {
	for _, gauge := range []prometheus.Gauge{
		m.fleetPressure, m.fleetPending, m.fleetLoad, m.unroutableQueues, m.unroutableTasks, m.topologyVersion, m.assignments, m.workersAtAll, m.desiredWorkers,
	} {
		gauge.Set(0)
	}
	m.queuePressure.Reset()
	m.queuePending.Reset()
	m.workers.Reset()
}

func (m *metrics) fleet(level Level, s PressureSignals) {
	m.fleetPressure.Set(float64(level))
	m.fleetPending.Set(float64(s.Pending))
	m.fleetLoad.Set(s.Load)
}

// observe shows what a turn ended with.
func (m *metrics) observe(r *Router, took time.Duration) {
	m.turnSeconds.Observe(took.Seconds())
	m.topologyVersion.Set(float64(r.version))
	m.workersAtAll.Set(float64(r.fleet.total(func(w *Member) int { return w.Slots })))
	for _, health := range []Health{Good, Strained, Overloaded} {
		m.workers.WithLabelValues(string(health)).Set(float64(r.fleet.total(func(w *Member) int {
			if w.Health == health {
				return 1
			}
			return 0
		})))
	}
	var queues, tasks int
	var shown []*queueState
	for _, q := range r.queues {
		if r.groupOf(q).unroutable != "" {
			queues++
			tasks += q.waiting
		}
		if q.waiting > 0 || q.pressure.Level() != Green {
			shown = append(shown, q)
		}
	}
	m.unroutableQueues.Set(float64(queues))
	m.unroutableTasks.Set(float64(tasks))
	slices.SortFunc(shown, func(a, b *queueState) int {
		return cmp.Or(cmp.Compare(b.waiting, a.waiting), cmp.Compare(a.name, b.name))
	})
	m.queuePressure.Reset()
	m.queuePending.Reset()
	for _, q := range shown[:min(len(shown), queuesShown)] {
		m.queuePressure.WithLabelValues(q.name).Set(float64(q.pressure.Level()))
		m.queuePending.WithLabelValues(q.name).Set(float64(q.waiting))
	}
}
