package governor

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sched-sidecar/sched/jobs"
)

// What became of a wake-up.
const (
	wakeupTaken   = "taken"
	wakeupForeign = "foreign"
)

// limitedTokens is the label of claims that the token bucket stopped.
const limitedTokens = "tokens"

// metrics are the governor's own; see docs/metrics.md.
type metrics struct {
	pauses, policyReads                                                   prometheus.Counter
	limited                                                               *prometheus.CounterVec
	claims, claimed, polls, refused, replayed, fences, evictions, skipped prometheus.Counter
	settled, rescued, wakeups                                             *prometheus.CounterVec
	dispatched                                                            *prometheus.HistogramVec
	queueWait, settleBatch, settleSeconds                                 prometheus.Histogram
	leading                                                               prometheus.Gauge
}

func newMetrics(registerer prometheus.Registerer, g *Governor) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "sched", Name: name, Help: help})
	}
	seconds := prometheus.ExponentialBuckets(0.0005, 2.5, 14) // 0.5 ms … 75 s
	m := &metrics{
		claims:      counter("claims_total", "Claim statements sent that were answered."),
		claimed:     counter("tasks_claimed_total", "Tasks claimed."),
		polls:       counter("polls_total", "Looks for tasks by this sidecar's own poller, while a queue is busy and for some seconds after that."),
		refused:     counter("settles_refused_total", "Outcomes that were not written because the lease was lost."),
		replayed:    counter("settles_replayed_total", "Outcomes of attempts that were settled before, by an earlier try or by the app."),
		fences:      counter("fences_total", "Times this sidecar gave up its calls because it had no contact with Postgres."),
		evictions:   counter("worker_evictions_total", "Workers that this sidecar, leading, declared dead."),
		skipped:     counter("kinds_skipped_total", "Times the app turned out to have no handler for a kind."),
		policyReads: counter("policy_reads_total", "Times the policy (queues, assignments, limits) was read: on news, and now and then."),
		pauses:      counter("kind_pauses_total", "Times this sidecar's app asked for a pause of a kind."),
		limited: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "sched", Name: "claims_limited_total", Help: "Claims that a limit left without some tasks, by limit.",
		}, []string{"by"}),
		settled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "sched", Name: "tasks_settled_total", Help: "Outcomes written, by outcome.",
		}, []string{"outcome"}),
		rescued: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "sched", Name: "tasks_rescued_total", Help: "Tasks taken away from dead workers, by their status after it.",
		}, []string{"status"}),
		wakeups: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "sched", Name: "wakeups_total", Help: "Notifications of new tasks: taken, or foreign (another worker's, or of a queue that this one doesn't serve).",
		}, []string{"answer"}),
		dispatched: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "sched", Name: "dispatch_duration_seconds", Help: "From claim to the app's outcome, by outcome.", Buckets: seconds,
		}, []string{"outcome"}),
		queueWait: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "sched", Name: "queue_wait_seconds", Help: "From the time a task was due to its claim.", Buckets: seconds,
		}),
		settleBatch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "sched", Name: "settle_batch_size", Help: "Outcomes written by one statement.", Buckets: prometheus.ExponentialBuckets(1, 2, 11),
		}),
		settleSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "sched", Name: "settle_duration_seconds", Help: "Duration of a settle statement.", Buckets: seconds,
		}),
		leading: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "sched", Name: "leading", Help: "1 while this sidecar leads the fleet."}),
	}
	for _, outcome := range []jobs.OutcomeKind{jobs.OutcomeComplete, jobs.OutcomeRetry, jobs.OutcomeSnooze, jobs.OutcomeCancel, jobs.OutcomeDiscard, jobs.OutcomeHandBack} {
		m.settled.WithLabelValues(outcome.String()) // a series that starts at zero
	}
	for _, answer := range []string{wakeupTaken, wakeupForeign} {
		m.wakeups.WithLabelValues(answer)
	}
	for _, by := range []string{limitedTokens, whyRate, whyMaxRunning, whyBusy} {
		m.limited.WithLabelValues(by)
	}
	registerer.MustRegister(m.pauses, m.policyReads, m.limited, m.claims, m.claimed, m.polls, m.refused, m.replayed, m.fences, m.evictions, m.skipped,
		m.settled, m.rescued, m.wakeups, m.dispatched, m.queueWait, m.settleBatch, m.settleSeconds, m.leading,
	)
	registerer.MustRegister(gauges(g)...)
	return m
}

// gauges read the state that there is.
func gauges(g *Governor) []prometheus.Collector {
	gauge := func(name, help string, read func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "sched", Name: name, Help: help}, read)
	}
	return []prometheus.Collector{
		gauge("tokens", "Tasks that may be claimed now by this sidecar's token bucket; -1: it is off.", func() float64 {
			if g.tokens.limiter == nil {
				return -1
			}
			return g.tokens.limiter.Tokens()
		}),
		gauge("tokens_wait_seconds", "Time until the token bucket lets the next task through.", func() float64 {
			return g.tokens.wait(time.Now(), 1).Seconds()
		}),
		gauge("lanes", "Lanes of queues with a mark: where claims leave something out.", func() float64 { return float64(g.laneCount.Load()) }),
		gauge("slots", "Tasks that may run at once now.", func() float64 { _, limit := g.slots.counts(); return float64(limit) }),
		gauge("slots_ceiling", "Configured maximum of slots.", func() float64 { return float64(g.config.Ceiling) }),
		gauge("tasks_running", "Tasks that hold a slot: being dispatched or settled.", func() float64 { return float64(g.running.count()) }),
		gauge("kinds_skipped", "Kinds that are not claimed now because the app lacks them.", func() float64 { return float64(len(g.skips.list())) }),
		gauge("listening", "1 while notifications arrive; 0 while this sidecar only polls.", func() float64 {
			if g.listening.Load() {
				return 1
			}
			return 0
		}),
		gauge("queues_busy", "Queues that this sidecar polls for by itself, because they are busy.", func() float64 {
			busy, _ := g.poller.duty(time.Now())
			return float64(len(busy))
		}),
		gauge("app_load_percent", "Load of the app, 0 to 100: its own report, or the higher one of its cpu and memory; 0 when it isn't known.", func() float64 { return g.load().LoadPercent }),
		gauge("app_cpu_ratio", "What the app uses of the cpu it may use, 0 to 1.", func() float64 { return g.load().CPU }),
		gauge("app_memory_ratio", "What the app uses of the memory it may use, 0 to 1.", func() float64 { return g.load().Mem }),
		gauge("queues_served", "Queues that this sidecar claims from.", func() float64 { return float64(len(g.policy.Load().Queues)) }),
		gauge("policy_age_seconds", "Time since the policy in force was read: queues, assignments, limits.", func() float64 {
			if at := g.policy.Load().ReadAt; !at.IsZero() {
				return time.Since(at).Seconds()
			}
			return 0
		}),
		gauge("claims_held", "Reasons in force for claiming nothing.", func() float64 { return float64(len(g.holds.names())) }),
	}
}

func (m *metrics) observeSettle(size int, took time.Duration) {
	m.settleBatch.Observe(float64(size))
	m.settleSeconds.Observe(took.Seconds())
}

func (m *metrics) observeDispatch(outcome jobs.OutcomeKind, took time.Duration) {
	m.dispatched.WithLabelValues(outcome.String()).Observe(took.Seconds())
}
