package httpapp

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// plain speaks HTTP/1.1 without TLS. The goroutine that sends a request also reads its
// response: net/http's Transport, with two goroutines for each connection, takes twice
// the CPU time for a small task. net/http parses what comes.
//
// A request is sent again only if nothing of it was written, on a connection that had
// been kept.
type plain struct {
	host        string
	dial        func(context.Context) (net.Conn, error)
	maxIdle     int // 0: no connection is kept
	idleTimeout time.Duration
	open        chan struct{} // holds an element for each request under way; nil: there may be any number
	buffers     sync.Pool     // of *bytes.Buffer

	mu     sync.Mutex
	idle   []*conn     // by how long they have been idle, the longest first
	reaper *time.Timer // nil: none is idle
}

func newPlain(host string, dial func(context.Context) (net.Conn, error), config Config) *plain {
	t := &plain{host: host, dial: dial, maxIdle: config.MaxIdleConns, idleTimeout: config.IdleConnTimeout}
	if config.MaxConns > 0 {
		t.open = make(chan struct{}, config.MaxConns)
	}
	return t
}

func (t *plain) send(ctx context.Context, r *request) (*http.Response, error) {
	if err := t.enter(ctx); err != nil {
		return nil, err
	}
	message, ok := t.buffers.Get().(*bytes.Buffer)
	if !ok {
		message = new(bytes.Buffer)
	}
	t.serialize(message, r)
	response, err := t.exchange(ctx, message.Bytes(), r.last)
	if err != nil {
		t.leave()
		return nil, err
	}
	if message.Len() <= aloneBytes {
		t.buffers.Put(message)
	}
	return response, nil
}

// CloseIdleConnections closes those that carry no request.
func (t *plain) CloseIdleConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closeIdle(len(t.idle))
	if t.reaper != nil {
		t.reaper.Stop()
		t.reaper = nil
	}
}

// serialize writes the request into a buffer: it goes out in one piece, and again if it
// must.
func (t *plain) serialize(message *bytes.Buffer, r *request) {
	message.Reset()
	line := func(parts ...string) {
		for _, part := range parts {
			message.WriteString(part)
		}
		message.WriteString("\r\n")
	}
	line(r.method, " ", r.path, " HTTP/1.1")
	line("Host: ", t.host)
	for _, f := range r.fields {
		line(f.name, ": ", f.value)
	}
	if len(r.body) > 0 {
		line("Content-Length: ", strconv.Itoa(len(r.body)))
	}
	if r.last {
		line("Connection: close")
	}
	line()
	message.Write(r.body)
}

// enter waits until there may be one request more.
func (t *plain) enter(ctx context.Context) error {
	if ctx.Err() != nil || t.open == nil {
		return ctx.Err()
	}
	select {
	case t.open <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *plain) leave() {
	if t.open != nil {
		<-t.open
	}
}

// exchange sends a message, the last on its connection or not, and reads the header of
// its response.
func (t *plain) exchange(ctx context.Context, message []byte, last bool) (*http.Response, error) {
	for {
		c, err := t.connect(ctx)
		if err != nil {
			return nil, err
		}
		detach := context.AfterFunc(ctx, c.interrupt)
		response, err := c.exchange(message)
		if err == nil {
			response.Body = &responseBody{
				ReadCloser: response.Body, whole: response.Body == http.NoBody,
				transport: t, conn: c, detach: detach,
				last: last || response.Close || response.StatusCode == http.StatusSwitchingProtocols,
			}
			return response, nil
		}
		if !detach() {
			return nil, context.Cause(ctx)
		}
		if !c.kept || c.sent {
			return nil, err
		}
	}
}

// connect returns the idle connection that was used last, or a new one.
func (t *plain) connect(ctx context.Context) (*conn, error) {
	for c := t.take(); c != nil; c = t.take() {
		// A machine that was asleep has not counted the time in which nothing was closed.
		if c.alive() && time.Now().Round(0).Sub(c.idleSince.Round(0)) < t.idleTimeout {
			return c, nil
		}
		_ = c.Close() // as the app has done, or will
	}
	connection, err := t.dial(ctx)
	if err != nil {
		return nil, err
	}
	return newConn(connection), nil
}

func (t *plain) take() *conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.idle) == 0 {
		return nil
	}
	last := len(t.idle) - 1
	c := t.idle[last]
	t.idle = slices.Delete(t.idle, last, last+1)
	return c
}

// keep takes a connection back that can carry another request.
func (t *plain) keep(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.idle) >= t.maxIdle {
		_ = c.Close() // nothing is under way that this could lose
		return
	}
	c.kept, c.idleSince = true, time.Now()
	t.idle = append(t.idle, c)
	if t.reaper == nil {
		t.reaper = time.AfterFunc(t.idleTimeout, t.reap)
	}
}

// reap closes what has been idle for too long.
func (t *plain) reap() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reaper == nil {
		return // closed meanwhile
	}
	now := time.Now()
	fresh := slices.IndexFunc(t.idle, func(c *conn) bool { return now.Sub(c.idleSince) < t.idleTimeout })
	if fresh < 0 {
		t.closeIdle(len(t.idle))
		t.reaper = nil
		return
	}
	t.closeIdle(fresh)
	t.reaper.Reset(t.idle[0].idleSince.Add(t.idleTimeout).Sub(now))
}

// closeIdle closes the first n idle connections. The caller holds mu.
func (t *plain) closeIdle(n int) {
	for _, c := range t.idle[:n] {
		_ = c.Close() // nothing is under way that this could lose
	}
	t.idle = slices.Delete(t.idle, 0, n)
}

// responseBody gives its connection back when it is closed.
type responseBody struct {
	io.ReadCloser
	transport *plain
	conn      *conn
	detach    func() bool // from the request's context; false if that has ended
	whole     bool        // read to its end
	last      bool        // no request may follow
	closed    bool
}

func (b *responseBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.whole = true
	}
	return n, err
}

// Close keeps the connection if it can carry another request. It reads no further.
func (b *responseBody) Close() error {
	if b.closed {
		return nil
	}
	b.closed = true
	if b.detach() && b.whole && !b.last && b.conn.clean() {
		b.transport.keep(b.conn)
	} else {
		_ = b.conn.Close() // what was wanted of it has been read
	}
	b.transport.leave()
	return nil
}
