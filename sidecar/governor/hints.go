package governor

import "sync"

// hints are queues that a notification named: a claim begins with them.
type hints struct {
	mu    sync.Mutex
	names map[string]struct{}
}

// add notes a queue. What doesn't fit is found by the next look.
func (h *hints) add(queue string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.names == nil {
		h.names = map[string]struct{}{}
	}
	if len(h.names) < hintsMax {
		h.names[queue] = struct{}{}
	}
}

// drain returns those of the given queues that were named, and forgets all.
func (h *hints) drain(in *intake) []laneQueue {
	h.mu.Lock()
	defer h.mu.Unlock()
	var queues []laneQueue
	for name := range h.names {
		if q, served := in.queue(name); served {
			queues = append(queues, q)
		}
	}
	clear(h.names)
	return queues
}
