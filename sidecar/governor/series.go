package governor

import (
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sched-sidecar/sched/internal/histogram"
	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/sidecar/spans"
)

const (
	// kindsShown and queuesShown bound how many kinds and queues have series of their
	// own in one sidecar: those that come first. The rest are together in other.
	kindsShown  = 50
	queuesShown = 50
	otherShown  = "other"
	// outcomes is above all outcomes that are settled.
	outcomes = jobs.OutcomeHandBack + 1
)

// series finds the series that belong to a task. Looking one up by its labels costs
// more than observing it, so each is looked up once, by the claim, which is one at a
// time; the task carries the answer.
type series struct {
	durations  *prometheus.HistogramVec
	waits      *prometheus.HistogramVec
	dispatched [outcomes]prometheus.Observer

	kinds      map[string]*kindSeries // guarded by claimMu
	queues     map[string]prometheus.Observer
	otherKind  *kindSeries // nil: there is none yet
	otherQueue prometheus.Observer
}

// indexOf is where an outcome is in what has one for each. What is none is settled as
// a hand-back.
func indexOf(outcome jobs.OutcomeKind) jobs.OutcomeKind {
	if outcome < jobs.OutcomeComplete || outcome >= outcomes {
		return jobs.OutcomeHandBack
	}
	return outcome
}

// kindSeries are those of one kind; an outcome has its series once it occurs.
type kindSeries struct {
	durations prometheus.ObserverVec
	byOutcome [outcomes]atomic.Pointer[prometheus.Observer]
}

// taskSeries are those of one task.
type taskSeries struct {
	kind *kindSeries
	wait prometheus.Observer
}

func (s *series) register(registerer prometheus.Registerer, protocols []string) {
	s.durations = prometheus.NewHistogramVec(histogram.Of("worker_pool_task_duration_seconds",
		"From the claim of a task until its outcome is written, which is how long it holds a slot. Beyond 50 kinds the kind is other.", secondsBuckets()), []string{"kind", "outcome"})
	s.waits = prometheus.NewHistogramVec(histogram.Of("queue_wait_seconds",
		"From the time a task was due to its claim, by the queue as enqueue names it. Beyond 50 queues it is other.", secondsBuckets()), []string{"queue"})
	dispatched := prometheus.NewHistogramVec(histogram.Of("dispatch_duration_seconds",
		"From the claim of a task to the app's outcome, by the protocol between sidecar and app.", secondsBuckets()), []string{"protocol", "outcome"})
	protocol := strings.Join(protocols, ",")
	for outcome := jobs.OutcomeComplete; outcome < outcomes; outcome++ {
		s.dispatched[outcome] = dispatched.WithLabelValues(protocol, outcome.String())
	}
	registerer.MustRegister(s.durations, s.waits, dispatched)
	s.kinds, s.queues = map[string]*kindSeries{}, map[string]prometheus.Observer{}
}

// of returns the series of a task of this kind and queue. Runs under claimMu.
func (s *series) of(kind, queue string) taskSeries {
	return taskSeries{kind: s.ofKind(kind), wait: s.ofQueue(queue)}
}

func (s *series) ofKind(kind string) *kindSeries {
	found, known := s.kinds[kind]
	switch {
	case known:
	case len(s.kinds) < kindsShown:
		found = s.newKind(kind)
		s.kinds[kind] = found
	default:
		if s.otherKind == nil {
			s.otherKind = s.newKind(otherShown)
		}
		found = s.otherKind
	}
	return found
}

func (s *series) newKind(kind string) *kindSeries {
	return &kindSeries{durations: s.durations.MustCurryWith(prometheus.Labels{"kind": kind})}
}

func (s *series) ofQueue(queue string) prometheus.Observer {
	found, known := s.queues[queue]
	switch {
	case known:
	case len(s.queues) < queuesShown:
		found = s.waits.WithLabelValues(queue)
		s.queues[queue] = found
	default:
		if s.otherQueue == nil {
			s.otherQueue = s.waits.WithLabelValues(otherShown)
		}
		found = s.otherQueue
	}
	return found
}

// duration is where the kind's attempts with this outcome are observed.
func (t taskSeries) duration(outcome jobs.OutcomeKind) prometheus.Observer {
	if found := t.kind.byOutcome[outcome].Load(); found != nil {
		return *found
	}
	found := t.kind.durations.WithLabelValues(outcome.String())
	t.kind.byOutcome[outcome].Store(&found)
	return found
}

// observe notes a value, with the attempt's trace, which it is an example of, if that is sampled.
func observe(attempt *spans.Attempt, where prometheus.Observer, value float64) {
	if id := attempt.TraceID(); id != "" {
		if exemplary, ok := where.(prometheus.ExemplarObserver); ok {
			exemplary.ObserveWithExemplar(value, prometheus.Labels{"trace_id": id})
			return
		}
	}
	where.Observe(value)
}
