package governor

import "time"

// A transaction that stays open keeps every row and index entry that there has been since
// it began. A claim that starts at the front of a queue then reads all the entries of
// tasks that are long over, 300,000 of them after ten minutes at 500 a second, to find
// the one that waits. Lanes, which remember up to where there is nothing, don't: claims
// go through them, as if something were left out, while they are slow for what they find.

const (
	// dragLeast and dragPerTask are what a claim may take beyond the quickest heartbeat,
	// which tells how far away the database is, on a busy machine, too.
	dragLeast   = 8 * time.Millisecond
	dragPerTask = 200 * time.Microsecond
	// dragTimes is how many claims in a row must be slower before that counts.
	dragTimes = 3
	// dragFor is how long claims go through lanes before one from the front is tried.
	dragFor = 30 * time.Second
)

// drag tells whether claims from the front of their queues are slow for what they find.
// Guarded by claimMu.
type drag struct {
	slow  int // claims in a row
	until time.Time
}

// on reports whether claims had better go through lanes.
func (d *drag) on(now time.Time) bool { return now.Before(d.until) }

// note takes how long a claim from the front took for so many tasks, beyond a heartbeat,
// and reports whether it was the one that made claims go through lanes.
func (d *drag) note(now time.Time, took time.Duration, tasks int) (begins bool) {
	if took <= dragLeast+time.Duration(tasks)*dragPerTask {
		d.slow = 0
		return false
	}
	d.slow++
	if d.slow < dragTimes {
		return false
	}
	begins = d.slow == dragTimes
	d.until = now.Add(dragFor)
	return begins
}
