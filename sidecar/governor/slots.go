package governor

import "sync"

// slots counts the tasks that may run at once. A slot is taken before a claim
// and freed after the attempt's outcome is written, so what runs, plus what is
// being claimed or settled, never exceeds the limit. Lowering the limit
// interrupts nothing: it takes effect as slots are freed.
type slots struct {
	mu    sync.Mutex
	limit int
	taken int
	// capped: the app holds no more than room at once, whatever the limit.
	capped bool
	room   int
	// single: no more than one at a time, whatever else holds.
	single bool
}

// allowed is what may run at once now. Under mu.
func (s *slots) allowed() int {
	allowed := s.limit
	if s.capped {
		allowed = min(allowed, s.room)
	}
	if s.single {
		allowed = min(allowed, 1)
	}
	return allowed
}

// take reserves up to n slots and returns how many it got.
func (s *slots) take(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := max(0, min(n, s.allowed()-s.taken))
	s.taken += got
	return got
}

// free gives back n slots.
func (s *slots) free(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken -= n
	if s.taken < 0 {
		panic("governor: more slots freed than were taken")
	}
}

// setLimit moves the limit and reports whether it grew.
func (s *slots) setLimit(n int) (grew bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.allowed()
	s.limit = n
	return s.allowed() > before
}

// setRoom caps what may run at once and reports whether that grew.
func (s *slots) setRoom(n int) (grew bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.allowed()
	s.capped, s.room = true, n
	return s.allowed() > before
}

// setSingle allows one task at a time, or no longer only one, and reports whether what
// may run at once grew.
func (s *slots) setSingle(on bool) (grew bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.allowed()
	s.single = on
	return s.allowed() > before
}

// isSingle reports whether one task at a time is allowed.
func (s *slots) isSingle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.single
}

// most is what may run at once at most: of so many, what the app holds. An app that
// holds nothing is on its way, or gone, and says nothing.
func (s *slots) most(ceiling int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.capped && s.room > 0 {
		ceiling = min(ceiling, s.room)
	}
	if s.single {
		ceiling = min(ceiling, 1)
	}
	return ceiling
}

// counts returns the slots taken and how many there are now.
func (s *slots) counts() (taken, limit int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken, s.allowed()
}
