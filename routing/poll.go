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

// pollPartLeast is how much less than an even part of the looks a worker with a
// free slot makes at most.
const pollPartLeast = 0.25

// PollInterval returns how long a worker waits between two looks at a busy queue:
// longest, when it has no free slot. All workers of the queue together look busyPolls
// times a second, or a little more often, however many they are: under least_loaded each in proportion to its free slots,
// so that all come to the same running ÷ ceiling, under round_robin all alike.
//
// The share may be some seconds old. That many workers had no slot free then must
// not make each of them poll as if it were alone; and that they had many, before
// their slots were made fewer, must not make all of them leave it to the others.
func PollInterval(strategy Strategy, busyPolls float64, free int, share PollShare, longest time.Duration) time.Duration {
	if free < 1 {
		return longest
	}
	even := 1 / float64(max(share.Workers, 1))
	part := even
	if strategy == LeastLoaded && share.Workers > 1 {
		part = max(float64(free)/float64(max(share.FreeSlots, share.Workers, free)), pollPartLeast*even)
	}
	perSecond := busyPolls * part
	if perSecond*longest.Seconds() <= 1 {
		return longest
	}
	return max(time.Duration(float64(time.Second)/perSecond), pollIntervalMin)
}
