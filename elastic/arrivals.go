package elastic

// Backlog is what waits in a queue, and how much of that is a worker's.
type Backlog struct {
	Share   float64 // 0 to 1
	Waiting float64 // tasks
}

// Backlogs are those of a worker's queues, by name. Nothing waits in one that is
// absent.
type Backlogs map[string]Backlog

// Pending is the worker's share of what waits, in tasks.
func (b Backlogs) Pending() float64 {
	sum := 0.0
	for _, q := range b {
		sum += q.Share * q.Waiting
	}
	return sum
}

// Waiting is all that waits, in tasks.
func (b Backlogs) Waiting() float64 {
	sum := 0.0
	for _, q := range b {
		sum += q.Waiting
	}
	return sum
}

// Arrivals returns how many tasks a second came due for a worker: those that it
// claimed within so many seconds, more than 0, and its share of what its queues grew
// by meanwhile. That the share itself became another is no arrival. Without before
// (nil: it isn't known, or is of other queues) only claims count.
func Arrivals(claimed, seconds float64, before, now Backlogs) float64 {
	came := claimed
	if before != nil {
		for name, q := range now {
			came += q.Share * (q.Waiting - before[name].Waiting)
		}
		for name, q := range before {
			if _, still := now[name]; !still {
				came -= q.Share * q.Waiting
			}
		}
	}
	return max(0, came) / seconds
}
