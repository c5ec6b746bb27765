package execapp

import "strings"

// head keeps the first limit bytes that are written to it; all of them, or it
// says that some were dropped.
type head struct {
	limit   int64
	data    []byte
	dropped bool
}

// Write never fails: the command must not be stopped by what it prints.
func (h *head) Write(p []byte) (int, error) {
	room := h.limit - int64(len(h.data))
	if int64(len(p)) > room {
		h.dropped = true
		h.data = append(h.data, p[:max(room, 0)]...)
		return len(p), nil
	}
	h.data = append(h.data, p...)
	return len(p), nil
}

// tail keeps the last limit bytes that are written to it.
type tail struct {
	limit int
	data  []byte
}

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.data = append(t.data, p...)
	if extra := len(t.data) - t.limit; extra > t.limit {
		t.data = append(t.data[:0], t.data[extra:]...)
	}
	return len(p), nil
}

// String returns what is kept, without the spaces around it.
func (t *tail) String() string {
	data := t.data[max(len(t.data)-t.limit, 0):]
	return strings.TrimSpace(string(data))
}
