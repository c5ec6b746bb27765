package simulate

import (
	"math"
	"time"

	"github.com/sched-sidecar/sched/elastic"
)

// Result is how a policy did.
type Result struct {
	Policy      Policy
	Arrived     float64 // tasks
	Ended       float64 // tasks
	SlotSeconds float64
	Changes     float64 // of a worker's slots
	WaitP50     time.Duration
	WaitP99     time.Duration
	BacklogMost float64
	Reasons     map[elastic.Reason]int
	Points      []Point // in order, at most pointsMax

	waits    histogram
	perPoint []histogram
	seconds  int
}

// Point is the state over some seconds: the mean, and of backlog the most.
type Point struct {
	Second  int
	Demand  float64 // slots that arrivals take
	Slots   float64
	Running float64
	Backlog float64
	WaitP99 time.Duration
	n       float64
}

const pointsMax = 600

func newResult(policy Policy, seconds int) Result {
	n := min(seconds, pointsMax)
	return Result{Policy: policy, Reasons: map[elastic.Reason]int{}, Points: make([]Point, n), perPoint: make([]histogram, n), seconds: seconds}
}

func (r *Result) point(second int) int { return second * len(r.Points) / r.seconds }

func (r *Result) waited(second int, wait time.Duration, tasks float64) {
	r.waits.add(wait, tasks)
	r.perPoint[r.point(second)].add(wait, tasks)
}

func (r *Result) record(second int, p Point) {
	into := &r.Points[r.point(second)]
	if into.n == 0 {
		into.Second = second
	}
	into.n++
	into.Demand += p.Demand
	into.Slots += p.Slots
	into.Running += p.Running
	into.Backlog = max(into.Backlog, p.Backlog)
	r.BacklogMost = max(r.BacklogMost, p.Backlog)
}

func (r *Result) finish() {
	r.WaitP50, r.WaitP99 = r.waits.quantile(0.5), r.waits.quantile(0.99)
	for i := range r.Points {
		p := &r.Points[i]
		p.Demand, p.Slots, p.Running = p.Demand/p.n, p.Slots/p.n, p.Running/p.n
		p.WaitP99 = r.perPoint[i].quantile(0.99)
	}
	r.perPoint = nil
}

// fifo is a queue of tasks that came at the same time, in order.
type fifo struct {
	batches []batch
	head    int
	count   float64
}

type batch struct {
	at    time.Duration
	tasks float64
}

func (q *fifo) push(at time.Duration, tasks float64) {
	if q.head > 1024 && q.head > len(q.batches)/2 {
		q.batches, q.head = q.batches[:copy(q.batches, q.batches[q.head:])], 0
	}
	q.batches = append(q.batches, batch{at, tasks})
	q.count += tasks
}

// pop takes tasks away and tells how long they waited.
func (q *fifo) pop(now time.Duration, tasks float64, each func(wait time.Duration, tasks float64)) {
	for tasks > 0 && q.head < len(q.batches) {
		b := &q.batches[q.head]
		n := min(tasks, b.tasks)
		each(now-b.at, n)
		tasks, b.tasks, q.count = tasks-n, b.tasks-n, q.count-n
		if b.tasks <= 1e-9 {
			q.head++
		}
	}
	if q.head == len(q.batches) {
		q.batches, q.head, q.count = q.batches[:0], 0, 0
	}
}

// histogram counts waits in steps of 5 %, from a millisecond on.
type histogram struct {
	counts []float64
	total  float64
}

const logStep = 0.04879016416943205 // ln 1.05

func (h *histogram) add(wait time.Duration, tasks float64) {
	i := 0
	if ms := wait.Seconds() * 1000; ms >= 1 {
		i = 1 + int(math.Log(ms)/logStep)
	}
	for len(h.counts) <= i {
		h.counts = append(h.counts, 0)
	}
	h.counts[i] += tasks
	h.total += tasks
}

// quantile is the least wait that a share of q of the tasks didn't exceed.
func (h *histogram) quantile(q float64) time.Duration {
	left := h.total * q
	for i, n := range h.counts {
		if left -= n; left <= 1e-9 {
			if i == 0 {
				return 0
			}
			return time.Duration(math.Exp(float64(i)*logStep) * float64(time.Millisecond))
		}
	}
	return 0
}
