package governor

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// The governor's own holds. Others may set further ones by name.
const (
	holdStarting = "starting"
	holdFenced   = "fenced"
	holdDraining = "draining"
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

// skips remembers the kinds that the app turned out not to have. Such a kind is
// not claimed until its backoff is over; each further refusal doubles it.
type skips struct {
	mu    sync.Mutex
	kinds map[string]skip
}

type skip struct {
	until   time.Time
	backoff time.Duration
}

// refuse records that the app lacks the kind and returns how long it is skipped.
// Refusals of tasks that were already on their way when the skip began don't
// extend it.
func (s *skips) refuse(kind string, now time.Time) (backoff time.Duration, isNew bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kinds == nil {
		s.kinds = map[string]skip{}
	}
	current, known := s.kinds[kind]
	if known && now.Before(current.until) {
		return current.until.Sub(now), false
	}
	backoff = skipBackoffMin
	if known {
		backoff = min(2*current.backoff, skipBackoffMax)
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

// active lists the kinds to leave out now, sorted; never nil.
func (s *skips) active(now time.Time) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	kinds := []string{}
	for kind, skip := range s.kinds {
		if now.Before(skip.until) {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}
