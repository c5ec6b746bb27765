package routing

import "time"

// Beat is a worker's heartbeat as the database shows it.
type Beat struct {
	WorkerID string
	Seq      int64
}

// Liveness decides which workers are dead from heartbeats that it is shown. A
// worker is dead when its heartbeat stood still for evictAfter of uninterrupted
// watching. Whenever the watching itself had a gap (Postgres away, the watcher
// suspended), nothing can be said about the workers and counting starts again:
// after an outage that everybody suffered nobody is evicted.
//
// It uses the watcher's own clock only, so clocks of different machines need
// not agree. It is not safe for concurrent use.
type Liveness struct {
	evictAfter time.Duration
	maxGap     time.Duration
	last       time.Time
	seen       map[string]sighting
}

type sighting struct {
	seq   int64
	since time.Time
}

// NewLiveness returns a watcher that declares a worker dead after evictAfter
// and starts over when two observations are more than maxGap apart.
func NewLiveness(evictAfter, maxGap time.Duration) *Liveness {
	return &Liveness{evictAfter: evictAfter, maxGap: maxGap, seen: map[string]sighting{}}
}

// Reset forgets everything. To be called when an observation failed.
func (l *Liveness) Reset() {
	clear(l.seen)
	l.last = time.Time{}
}

// Observe takes the current heartbeats of all live registrations and returns
// those that are dead. A worker stays in the answer as long as it is shown.
func (l *Liveness) Observe(now time.Time, beats []Beat) []Beat {
	if !l.last.IsZero() && now.Sub(l.last) > l.maxGap {
		l.Reset()
	}
	l.last = now
	current := make(map[string]sighting, len(beats))
	var dead []Beat
	for _, beat := range beats {
		known, ok := l.seen[beat.WorkerID]
		if !ok || known.seq != beat.Seq {
			known = sighting{seq: beat.Seq, since: now}
		}
		current[beat.WorkerID] = known
		if now.Sub(known.since) >= l.evictAfter {
			dead = append(dead, beat)
		}
	}
	l.seen = current
	return dead
}
