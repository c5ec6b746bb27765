package routing

import (
	"cmp"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sched-sidecar/sched/internal/histogram"
	"github.com/sched-sidecar/sched/sql/dbq"
)

// queuesShown bounds the queues with series of their own: those with the most
// waiting tasks.
const queuesShown = 50

// metrics are those of the leader; see docs/metrics.md. Whoever doesn't lead shows
// zeros, no queue, and no wish for workers: an autoscaler would obey a zero.
type metrics struct {
	fleetPressure, fleetPending, fleetLoad     prometheus.Gauge
	unroutableQueues, unroutableTasks          prometheus.Gauge
	topologyVersion, assignments, workersAtAll prometheus.Gauge
	desiredWorkers                             absentGauge
	queuePressure, queuePending                *prometheus.GaugeVec
	workers                                    *prometheus.GaugeVec
	turnSeconds                                prometheus.Histogram
	fleetOldest                                prometheus.Gauge
	queueOldest, queuePaused                   *prometheus.GaugeVec
	shown                                      []string // queues with series of their own
}

// absentGauge is a gauge that is absent until it is set, and once it is reset.
type absentGauge struct{ *prometheus.GaugeVec }

// Set shows a value.
func (g absentGauge) Set(value float64) { g.WithLabelValues().Set(value) }

func newMetrics(registerer prometheus.Registerer) *metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "sched", Name: name, Help: help})
	}
	vec := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "sched", Name: name, Help: help}, labels)
	}
	m := &metrics{
		fleetPressure:    gauge("fleet_pressure", "Pressure of the fleet: 0 green, 1 yellow, 2 red. By the leader; 0 at the others."),
		fleetPending:     gauge("fleet_pending", "Tasks available and due over all queues, counted up to max_pending. By the leader; 0 at the others."),
		fleetLoad:        gauge("fleet_load", "Mean running / ceiling of the workers that take tasks, 0 to 1. By the leader; 0 at the others."),
		unroutableQueues: gauge("queues_unroutable", "Queues that ask for something that no live worker offers. By the leader; 0 at the others."),
		unroutableTasks:  gauge("tasks_unroutable", "Tasks that wait in queues that ask for something that no live worker offers, each counted up to its max_pending. By the leader; 0 at the others."),
		topologyVersion:  gauge("topology_version", "Version of the newest topology. By the leader; 0 at the others."),
		assignments:      gauge("assignments", "Rows of sched.assignment. By the leader; 0 at the others."),
		workersAtAll:     gauge("fleet_slots", "Sum of the slots of all live workers. By the leader; 0 at the others."),
		desiredWorkers:   absentGauge{vec("fleet_desired_workers", "Workers that the fleet should have, as sched.fleet_demand has it. By the leader, each 10 s; absent at the others, so that no autoscaler takes a lost leader for an idle fleet.")},
		queuePressure:    vec("queue_pressure", "Pressure of the 50 queues with the most waiting tasks: 0 green, 1 yellow, 2 red. By the leader; absent at the others.", "queue"),
		queuePending:     vec("queue_pending", "Tasks available and due in the 50 queues with the most of them, counted up to max_pending. By the leader; absent at the others.", "queue"),
		workers:          vec("fleet_workers", "Live workers by health: good, strained, overloaded. By the leader; absent at the others.", "health"),
		turnSeconds:      prometheus.NewHistogram(histogram.Of("routing_turn_seconds", "Duration of the leader's routing turn.", prometheus.ExponentialBuckets(0.001, 2.5, 10))),
	}
	m.fleetOldest = gauge("fleet_oldest_available_seconds", "How long the longest waiting task has been due, of the queues with series of their own. By the leader, each 5 s; 0 at the others.")
	m.queueOldest = vec("queue_oldest_available_seconds", "How long the longest waiting task has been due, of the 50 queues with the most waiting tasks. By the leader, each 5 s; absent at the others.", "queue")
	m.queuePaused = vec("queue_paused", "1 while the queue is paused, of the 50 queues with the most waiting tasks. By the leader, each 5 s; absent at the others.", "queue")
	registerer.MustRegister(m.fleetOldest, m.queueOldest, m.queuePaused, m.fleetPressure, m.fleetPending, m.fleetLoad, m.unroutableQueues, m.unroutableTasks, m.topologyVersion,
		m.assignments, m.workersAtAll, m.desiredWorkers.GaugeVec, m.queuePressure, m.queuePending, m.workers, m.turnSeconds)
	return m
}

func (m *metrics) reset() {
	for _, gauge := range []prometheus.Gauge{
		m.fleetPressure, m.fleetPending, m.fleetLoad, m.unroutableQueues, m.unroutableTasks, m.topologyVersion, m.assignments, m.workersAtAll, m.fleetOldest,
	} {
		gauge.Set(0)
	}
	m.desiredWorkers.Reset()
	m.queuePressure.Reset()
	m.queuePending.Reset()
	m.queueOldest.Reset()
	m.queuePaused.Reset()
	m.workers.Reset()
	m.shown = nil
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
	m.shown = m.shown[:0]
	for _, q := range shown[:min(len(shown), queuesShown)] {
		m.shown = append(m.shown, q.name)
		m.queuePressure.WithLabelValues(q.name).Set(float64(q.pressure.Level()))
		m.queuePending.WithLabelValues(q.name).Set(float64(q.waiting))
	}
}

// observeOldest shows since when tasks wait, and in which queues they have to. What
// isn't among the rows has none.
func (m *metrics) observeOldest(rows []dbq.RoutingOldestRow) {
	oldest := 0.0
	m.queueOldest.Reset()
	m.queuePaused.Reset()
	for _, row := range rows {
		paused := 0.0
		if row.Paused {
			paused = 1
		}
		m.queuePaused.WithLabelValues(row.Queue).Set(paused)
		m.queueOldest.WithLabelValues(row.Queue).Set(row.Seconds)
		oldest = max(oldest, row.Seconds)
	}
	m.fleetOldest.Set(oldest)
}
