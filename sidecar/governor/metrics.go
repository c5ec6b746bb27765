package governor

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sched-sidecar/sched/internal/histogram"
	"github.com/sched-sidecar/sched/jobs"
)

// What became of a wake-up.
const (
	wakeupTaken   = "taken"
	wakeupForeign = "foreign"
)

// What became of the notification that a new task could have sent.
const (
	notificationSent       = "sent"
	notificationSuppressed = "suppressed"
)

// limitedTokens is the label of claims that the token bucket stopped.
const limitedTokens = "tokens"

// metrics are the governor's own; docs/metrics.md lists them.
type metrics struct {
	perTask bool // what is measured of each task is measured at all

	pauses, claims, claimed, polls, refused, replayed, fences, evictions, skipped, policyReads, enqueued prometheus.Counter

	limited, rescued, wakeups, notifications             *prometheus.CounterVec
	byStatus                                             map[string]prometheus.Counter // not changed once it is made
	claimBatch, claimSeconds, settleBatch, settleSeconds prometheus.Histogram
	timedLateness                                        prometheus.Histogram
	leading, foreignLeader, roundTrip                    prometheus.Gauge
	xminAge, oldestTransaction, deadTuples, liveTuples   prometheus.Gauge
	settled                                              [outcomes]prometheus.Counter
	series                                               series
}

// counterOf and gaugeOf name what the whole package shows alike.
func counterOf(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "sched", Name: name, Help: help})
}

func countersOf(name, help, label string, values ...string) *prometheus.CounterVec {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "sched", Name: name, Help: help}, []string{label})
	for _, value := range values {
		vec.WithLabelValues(value) // a series that starts at zero
	}
	return vec
}

func gaugeOf(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "sched", Name: name, Help: help})
}

// secondsBuckets are 0.5 ms to 75 s.
func secondsBuckets() []float64 { return prometheus.ExponentialBuckets(0.0005, 2.5, 14) }

func newMetrics(registerer prometheus.Registerer, g *Governor) *metrics {
	m := &metrics{}
	m.count(registerer)
	m.measure(registerer)
	m.series.register(registerer, g.config.Protocols)
	registerer.MustRegister(gauges(g)...)
	registerer.MustRegister(newWorkerPool(g))
	return m
}

// count makes the counters.
func (m *metrics) count(registerer prometheus.Registerer) {
	m.claims = counterOf("claims_total", "Claim statements sent that were answered.")
	m.claimed = counterOf("tasks_claimed_total", "Tasks claimed.")
	m.polls = counterOf("polls_total", "Looks for tasks by this sidecar's own poller, while a queue is busy and for some seconds after that.")
	m.refused = counterOf("settles_refused_total", "Outcomes that were not written because the lease was lost. Rises when work is done twice: look for sidecars that are suspended or cut off for longer than evict_after.")
	m.replayed = counterOf("settles_replayed_total", "Outcomes of attempts that were settled before, by an earlier try or by the app (sched.complete). sched_tasks_settled_total counts what they came to.")
	m.fences = counterOf("fences_total", "Times this sidecar gave up its calls because it had no contact with Postgres.")
	m.evictions = counterOf("worker_evictions_total", "Workers that this sidecar, leading, declared dead.")
	m.skipped = counterOf("kinds_skipped_total", "Times the app turned out to lack a kind.")
	m.pauses = counterOf("kind_pauses_total", "Times this sidecar's app asked for a pause of a kind, by Retry-After.")
	m.policyReads = counterOf("policy_reads_total", "Times the policy (queues, assignments, limits) was read: on news, and now and then.")
	m.enqueued = counterOf("tasks_enqueued_total", "Tasks enqueued in the whole fleet, as this sidecar, leading, saw by the ids given out: those of transactions that rolled back are among them. Read each second.")
	m.limited = countersOf("claims_limited_total", "Claims that a limit left without some tasks: tokens, rate, max_running, or busy (another sidecar was taking from the limit).",
		"by", limitedTokens, whyRate, whyMaxRunning, whyBusy)
	m.rescued = countersOf("tasks_rescued_total", "Tasks taken away from dead workers by this sidecar, leading, by their status after it.", "status", "available", "discarded", "cancelled")
	m.wakeups = countersOf("wakeups_total", "Notifications of new tasks that this sidecar heard: taken, or foreign (meant for another worker, or of a queue that this one doesn't serve).", "answer", wakeupTaken, wakeupForeign)
	m.notifications = countersOf("notifications_total",
		"Notifications of new tasks in the whole fleet, as this sidecar, leading, heard them: sent, and suppressed (tasks enqueued without one of their own, because workers poll, all are full, or many came in one call).",
		"result", notificationSent, notificationSuppressed)
	statuses := countersOf("task_status_changes_total", "Tasks by the status that a settled outcome brought them into. discarded: failed for good; retryable: will be tried again.", "status")
	m.byStatus = map[string]prometheus.Counter{}
	for _, status := range []string{"completed", "retryable", "scheduled", "available", "cancelled", "discarded"} {
		m.byStatus[status] = statuses.WithLabelValues(status)
	}
	settled := countersOf("tasks_settled_total", "Attempts that ended, by outcome: complete (by sched.complete too), retry, snooze, cancel, discard, handback.", "outcome")
	for outcome := jobs.OutcomeComplete; outcome <= jobs.OutcomeHandBack; outcome++ {
		m.settled[outcome] = settled.WithLabelValues(outcome.String())
	}
	registerer.MustRegister(m.claims, m.claimed, m.polls, m.refused, m.replayed, m.fences, m.evictions, m.skipped, m.pauses, m.policyReads, m.enqueued,
		m.limited, m.rescued, m.wakeups, m.notifications, statuses, settled)
}

// measure makes the histograms and what the leader watches.
func (m *metrics) measure(registerer prometheus.Registerer) {
	sizes := prometheus.ExponentialBuckets(1, 2, 11)
	m.claimBatch = prometheus.NewHistogram(histogram.Of("claim_batch_size", "Tasks that one claim got; 0 among them.", append([]float64{0}, sizes...)))
	m.claimSeconds = prometheus.NewHistogram(histogram.Of("claim_duration_seconds", "Duration of a claim, all its statements together.", secondsBuckets()))
	m.settleBatch = prometheus.NewHistogram(histogram.Of("settle_batch_size", "Outcomes written by one statement.", sizes))
	m.settleSeconds = prometheus.NewHistogram(histogram.Of("settle_duration_seconds", "Duration of a settle statement.", secondsBuckets()))
	m.timedLateness = prometheus.NewHistogram(histogram.Of("timed_task_lateness_seconds", "From the due time to the claim, of tasks that were enqueued for later, put off or retried.", secondsBuckets()))
	m.leading = gaugeOf("leading", "1 while this sidecar leads the fleet.")
	m.foreignLeader = gaugeOf("foreign_leader", "1 while a River client that is no sidecar leads: nobody evicts dead workers, promotes due tasks in time or assigns queues. Every sidecar shows it.")
	m.roundTrip = gaugeOf("heartbeat_round_trip_seconds", "Duration of this sidecar's last heartbeat.")
	m.xminAge = gaugeOf("postgres_xmin_age_transactions", "Transactions begun since the oldest snapshot that keeps dead rows of this database from being vacuumed: of sessions, prepared transactions, standbys and slots. By the leader, each 15 s; 0 at the others.")
	m.oldestTransaction = gaugeOf("postgres_oldest_transaction_seconds", "Age of the oldest open transaction in this database that the sidecar's role may see (all of them with pg_read_all_stats). By the leader, each 15 s; 0 at the others.")
	m.deadTuples = gaugeOf("river_job_dead_tuples", "Dead rows of sched.river_job by Postgres' statistics. By the leader, each 15 s; 0 at the others.")
	m.liveTuples = gaugeOf("river_job_live_tuples", "Live rows of sched.river_job by Postgres' statistics. By the leader, each 15 s; 0 at the others.")
	registerer.MustRegister(m.claimBatch, m.claimSeconds, m.settleBatch, m.settleSeconds, m.timedLateness, m.leading, m.foreignLeader, m.roundTrip,
		m.xminAge, m.oldestTransaction, m.deadTuples, m.liveTuples)
}

func (m *metrics) observeSettle(size int, took time.Duration) {
	m.settleBatch.Observe(float64(size))
	m.settleSeconds.Observe(took.Seconds())
}

func (m *metrics) observeClaim(got int, took time.Duration) {
	m.claims.Inc()
	m.claimBatch.Observe(float64(got))
	m.claimSeconds.Observe(took.Seconds())
}

// led shows whether this sidecar leads. Whoever doesn't shows nothing of what only
// the leader knows.
func (m *metrics) led(leading bool) {
	if leading {
		m.leading.Set(1)
		return
	}
	for _, gauge := range []prometheus.Gauge{m.leading, m.xminAge, m.oldestTransaction, m.deadTuples, m.liveTuples} {
		gauge.Set(0)
	}
}

// observeStart notes that an attempt begins.
func (m *metrics) observeStart(x *execution) {
	if !m.perTask {
		return
	}
	wait := max(0, x.started.Sub(x.task.ScheduledAt).Seconds())
	observe(x.spans, x.series.wait, wait)
	if x.task.ScheduledAt.After(x.task.CreatedAt) {
		observe(x.spans, m.timedLateness, wait)
	}
}

// observeDispatch notes that the app's outcome has come.
func (m *metrics) observeDispatch(x *execution, outcome jobs.OutcomeKind, ended time.Time) {
	if m.perTask {
		observe(x.spans, m.series.dispatched[indexOf(outcome)], ended.Sub(x.started).Seconds())
	}
}

// observeSettled notes that an outcome was written.
func (m *metrics) observeSettled(x *execution, outcome jobs.OutcomeKind, status string) {
	m.settled[indexOf(outcome)].Inc()
	if m.perTask {
		if by := m.byStatus[status]; by != nil {
			by.Inc()
		}
		observe(x.spans, x.series.duration(indexOf(outcome)), time.Since(x.started).Seconds())
	}
}
