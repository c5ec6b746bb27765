package console

import (
	"fmt"
	"net/http"
	"time"
)

const (
	// writeTimeout ends the stream of somebody who is gone without a word.
	writeTimeout = 10 * time.Second
	keepAlive    = 15 * time.Second
)

// live streams what changes on a page, as server-sent events.
func (c *Console) live(w http.ResponseWriter, r *http.Request) {
	of := topic(r.URL.Query().Get("page"))
	switch of {
	case topicOverview, topicWorkers, topicQueues:
	default:
		http.Error(w, "page must be overview, workers or queues", http.StatusBadRequest)
		return
	}
	viewer := c.hub.join(of)
	if viewer == nil {
		w.Header().Set("Retry-After", "10")
		http.Error(w, fmt.Sprintf("%d pages follow already, or the sidecar is stopping; try again later", c.config.MaxStreams), http.StatusServiceUnavailable)
		return
	}
	defer c.hub.leave(viewer)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // or a proxy would keep it for itself
	out := http.NewResponseController(w)
	send := func(text string) bool {
		if err := out.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
			return false
		}
		if _, err := w.Write([]byte(text)); err != nil {
			return false
		}
		return out.Flush() == nil
	}
	defer func() { _ = out.SetWriteDeadline(time.Time{}) }() // the connection may be used again
	if !send("retry: 2000\n\n") {
		return
	}
	alive := time.NewTicker(keepAlive)
	defer alive.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case m, open := <-viewer.messages:
			if !open || !send("event: "+m.event+"\ndata: "+string(m.data)+"\n\n") {
				return
			}
		case <-alive.C:
			if !send(": still here\n\n") {
				return
			}
		}
	}
}
