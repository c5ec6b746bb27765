package governor

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// The governor's own holds. Others may set further ones by name.
const (
	holdStarting   = "starting"
	holdFenced     = "no contact with Postgres"
	holdDraining   = "draining"
	holdOverloaded = "overloaded"
)

// holds are the named reasons for claiming nothing right now.
type holds struct {
	mu  sync.Mutex
	set map[string]struct{}
}

// put sets a hold and reports whether it is new.
func (h *holds) put(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.set == nil {
		h.set = map[string]struct{}{}
	}
	_, known := h.set[name]
	h.set[name] = struct{}{}
	return !known
}

// lift removes a hold and reports whether the last one is gone by that.
func (h *holds) lift(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, known := h.set[name]
	delete(h.set, name)
	return known && len(h.set) == 0
}

// names lists the holds in force, sorted; never nil.
func (h *holds) names() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	names := slices.AppendSeq(make([]string, 0, len(h.set)), maps.Keys(h.set))
	slices.Sort(names)
	return names
}

// has reports whether one hold is in force.
func (h *holds) has(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, known := h.set[name]
	return known
}

// any reports whether any hold is in force.
func (h *holds) any() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.set) > 0
}

const (
	skipBackoffMin = time.Second
	skipBackoffMax = time.Minute
)

// skips remembers the kinds that the app turned out not to have. They are left
// out of claims, but for one task of the kind each time its backoff is over: if
// the app refuses that too, the backoff doubles.
type skips struct {
	mu    sync.Mutex
	kinds map[string]skip
}

type skip struct {
	until   time.Time
	backoff time.Duration
	probing bool // a task was asked for since the last refusal
}

// refuse records that the app lacks the kind, and returns for how long it is
// skipped. It is not news when the refused task was claimed before the skip began.
func (s *skips) refuse(kind string, now time.Time) (backoff time.Duration, isNews bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kinds == nil {
		s.kinds = map[string]skip{}
	}
	current, known := s.kinds[kind]
	switch {
	case !known:
		backoff = skipBackoffMin
	case current.probing:
		backoff = min(2*current.backoff, skipBackoffMax)
	default:
		return current.until.Sub(now), false
	}
	s.kinds[kind] = skip{until: now.Add(backoff), backoff: backoff}
	return backoff, true
}

// accept records that the app has the kind after all.
func (s *skips) accept(kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.kinds, kind)
}

// forget ends a skip that has lasted for long, once no task of the kind is left: the
// next one of it is refused again, at no cost. Kinds that hold an id would else pile up.
func (s *skips) forget(kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kinds[kind].backoff >= skipBackoffMax {
		delete(s.kinds, kind)
	}
}

// probe returns a kind of which one task should be asked for now, or "".
func (s *skips) probe(now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for kind, current := range s.kinds {
		if !now.Before(current.until) {
			s.kinds[kind] = skip{until: now.Add(current.backoff), backoff: current.backoff, probing: true}
			return kind
		}
	}
	return ""
}

// list returns the kinds that are skipped, sorted; never nil.
func (s *skips) list() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	kinds := slices.AppendSeq(make([]string, 0, len(s.kinds)), maps.Keys(s.kinds))
	slices.Sort(kinds)
	return kinds
}
