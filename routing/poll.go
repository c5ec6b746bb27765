package routing

import "time"

// PollShare is how many share the work of a queue, as the leader saw it last.
type PollShare struct {
	FreeSlots int  // of all its workers
	Workers   int  // assigned
	Polled    bool // nobody is woken for it; see [QueuePolicy]
}

// pollIntervalMin bounds how often one worker polls.
const pollIntervalMin = time.Millisecond

// PollInterval returns how long a worker with free slots waits between two looks
// at a busy queue. All workers of the queue together look busyPolls times a second,
// however many they are: under least_loaded each in proportion to its free slots,
// so that all come to the same running ÷ ceiling, under round_robin all alike.
//
// The share may be some seconds old. That many workers had no slot free then must
// not make each of them poll as if it were alone.
func PollInterval(strategy Strategy, busyPolls float64, free int, share PollShare, longest time.Duration) time.Duration {
	part := 1 / float64(max(share.Workers, 1))
	if strategy == LeastLoaded {
		part = float64(free) / float64(max(share.FreeSlots, share.Workers, free))
	}
	perSecond := busyPolls * part
	if perSecond*longest.Seconds() <= 1 {
		return longest
	}
	return max(time.Duration(float64(time.Second)/perSecond), pollIntervalMin)
}
