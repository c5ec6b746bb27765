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
}

// take reserves up to n slots and returns how many it got.
func (s *slots) take(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := max(0, min(n, s.limit-s.taken))
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
	grew = n > s.limit
	s.limit = n
	return grew
}

// counts returns the slots taken and the limit.
func (s *slots) counts() (taken, limit int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken, s.limit
}
