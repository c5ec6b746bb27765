package console

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"
)

const (
	pollEvery = time.Second
	// tableEvery is how many polls go by between two of the tables.
	tableEvery = 2
	// linger is for how long polling goes on when the last one has left: whoever goes
	// from page to page finds the charts as they were.
	linger = 30 * time.Second
	// historyLength is what a chart shows at most, in polls.
	historyLength = 600
	// viewerBacklog is how many messages may wait for one viewer. A slower one is cut
	// off, and comes back by itself.
	viewerBacklog = 16
	// pollTimeout bounds one round, however the connection fails.
	pollTimeout = 8 * time.Second
)

// topic is a page whose tables follow.
type topic string

const (
	topicOverview topic = "overview"
	topicWorkers  topic = "workers"
	topicQueues   topic = "queues"
)

// message is one server-sent event.
type message struct {
	event string
	data  []byte
}

// viewer is somebody who looks.
type viewer struct {
	topic    topic
	messages chan message // closed by the hub
}

// feed is where the hub's news come from.
type feed interface {
	// sample reads the figures, after those before it.
	sample(ctx context.Context, before []sample) (sample, error)
	// tables renders the parts of a page that follow.
	tables(ctx context.Context, of topic) ([]byte, error)
}

// hub polls once for all who look.
type hub struct {
	feed   feed
	most   int
	logger *slog.Logger
	wake   chan struct{}

	mu      sync.Mutex
	viewers map[*viewer]struct{}
	history []sample
	trouble *trouble // why the last poll failed
	ended   bool
}

func newHub(feed feed, most int, logger *slog.Logger) *hub {
	return &hub{feed: feed, most: most, logger: logger, wake: make(chan struct{}, 1), viewers: map[*viewer]struct{}{}}
}

// join adds a viewer, who is first told what is known. It returns nil when there are
// as many as may be, or the hub has ended.
func (h *hub) join(of topic) *viewer {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended || len(h.viewers) >= h.most {
		return nil
	}
	v := &viewer{topic: of, messages: make(chan message, viewerBacklog)}
	v.messages <- message{"history", encode(h.history)}
	if h.trouble != nil {
		v.messages <- message{"trouble", encode(h.trouble)}
	}
	h.viewers[v] = struct{}{}
	select {
	case h.wake <- struct{}{}:
	default: // it is awake, or will be
	}
	return v
}

func (h *hub) leave(v *viewer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(v)
}

// drop ends a viewer's stream; under the lock.
func (h *hub) drop(v *viewer) {
	if _, there := h.viewers[v]; there {
		delete(h.viewers, v)
		close(v.messages)
	}
}

// run polls while somebody looks, until ctx ends.
func (h *hub) run(ctx context.Context) {
	defer h.end()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.wake:
			h.poll(ctx)
		}
	}
}

func (h *hub) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	for v := range h.viewers {
		h.drop(v)
	}
}

// poll polls until nobody has looked for a while.
func (h *hub) poll(ctx context.Context) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for round, idle := 0, time.Duration(0); idle < linger; round++ {
		topics := h.topics()
		idle += pollEvery
		if len(topics) > 0 {
			idle = 0
		}
		h.round(ctx, topics, round%tableEvery == 0)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-h.wake: // somebody new: they get their tables at once
			round = -1
		}
	}
	h.mu.Lock()
	h.history = nil // it would have a hole
	h.mu.Unlock()
}

func (h *hub) topics() map[topic]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	topics := map[topic]bool{}
	for v := range h.viewers {
		topics[v.topic] = true
	}
	return topics
}

func (h *hub) round(ctx context.Context, topics map[topic]bool, tables bool) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	h.mu.Lock()
	before := h.history
	h.mu.Unlock()
	next, err := h.feed.sample(ctx, before)
	if err != nil {
		h.failed(ctx, err)
		return
	}
	h.mu.Lock()
	recovered := h.trouble != nil
	h.trouble = nil
	h.history = append(h.history, next)
	if over := len(h.history) - historyLength; over > 0 {
		h.history = h.history[over:]
	}
	h.mu.Unlock()
	h.tell(message{"sample", encode(next)}, "")
	if !tables && !recovered {
		return
	}
	for of := range topics {
		html, err := h.feed.tables(ctx, of)
		if err != nil {
			h.failed(ctx, err)
			return
		}
		h.tell(message{"tables", encode(map[string]string{"html": string(html)})}, of)
	}
}

func (h *hub) failed(ctx context.Context, err error) {
	t := troubleOf(err)
	h.mu.Lock()
	first := h.trouble == nil
	h.trouble = t
	h.mu.Unlock()
	if first {
		h.logger.DebugContext(ctx, "the console can't read", slog.Any("error", err))
	}
	h.tell(message{"trouble", encode(t)}, "")
}

// tell sends a message to those who look at a topic, or to all.
func (h *hub) tell(m message, of topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for v := range h.viewers {
		if of != "" && v.topic != of {
			continue
		}
		select {
		case v.messages <- m:
		default:
			h.drop(v) // it comes back when it can
		}
	}
}

// encode never fails on what is sent here: numbers, texts and lists of them.
func encode(value any) []byte {
	data, err := json.Marshal(value)
	if err != nil {
		return []byte("null")
	}
	return data
}
