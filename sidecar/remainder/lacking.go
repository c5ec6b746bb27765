package remainder

import (
	"slices"
	"time"
)

const (
	// A kind counts as lacking when the app refused it more than once: the sidecar skips it for a second at first, and
	// then claims one to try again. An app may not have all its routes in its first moment.
	lackingAfter = 2500 * time.Millisecond
	// Nobody skipped it for this long: it was tried and found, or there is no task of it.
	lackingForget = 5 * time.Second
)

// lacking remembers which kinds the app lacks, over the moments at which one is tried again.
type lacking struct {
	seen map[string]sighting
}

type sighting struct {
	first, last time.Time
}

// observe notes the kinds that are skipped now.
func (l *lacking) observe(skipped []string, now time.Time) {
	if l.seen == nil {
		l.seen = map[string]sighting{}
	}
	for kind, s := range l.seen {
		if now.Sub(s.last) > lackingForget {
			delete(l.seen, kind)
		}
	}
	for _, kind := range skipped {
		s, known := l.seen[kind]
		if !known {
			s.first = now
		}
		s.last = now
		l.seen[kind] = s
	}
}

// kinds lists those that the app lacks, sorted; never nil, which would leave out all tasks rather than none.
func (l *lacking) kinds() []string {
	kinds := []string{}
	for kind, s := range l.seen {
		if s.last.Sub(s.first) >= lackingAfter {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}
