package httpapp

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"
)

const (
	// aloneBytes of a request are written before its response is looked for. The system
	// takes that much from us even if the app reads nothing.
	aloneBytes = 16 << 10
	// writerPause is how long a connection waits to be kept for the end of its request.
	writerPause = 50 * time.Millisecond
	// lastAnswer is how long an answer is waited for when no more can be written.
	lastAnswer = time.Second
)

// conn is a connection to the app that carries one request at a time.
type conn struct {
	net.Conn
	state      syscall.RawConn // nil: it can't be asked
	in         *bufio.Reader
	headerLeft int       // bytes that may still come before the header has ended; -1: any number
	written    chan bool // the request is out, or can't be
	sent       bool      // something of the request may have arrived
	kept       bool      // it has carried a request before
	idleSince  time.Time
}

func newConn(c net.Conn) *conn {
	wrapped := &conn{Conn: c, headerLeft: -1, written: make(chan bool, 1)}
	wrapped.in = bufio.NewReader(wrapped)
	if asked, ok := c.(syscall.Conn); ok {
		wrapped.state, _ = asked.SyscallConn() // without it, a request finds out
	}
	return wrapped
}

// interrupt makes reads and writes return at once.
func (c *conn) interrupt() { _ = c.SetDeadline(time.Unix(1, 0)) }

// alive reports whether the app has left the idle connection open, and silent: what it
// sent unasked would be taken for a response.
func (c *conn) alive() bool {
	if c.state == nil {
		return true
	}
	var failure error
	err := c.state.Read(func(fd uintptr) bool {
		var b [1]byte
		_, failure = syscall.Read(int(fd), b[:])
		return true
	})
	return err == nil && failure == syscall.EAGAIN
}

// clean reports whether the last request has gone out and nothing came but its response.
func (c *conn) clean() bool {
	if len(c.written) == 0 {
		// The response may be here before the one who wrote the request knows that it is out.
		timer := time.AfterFunc(writerPause, func() { _ = c.Close() })
		defer timer.Stop()
	}
	return <-c.written && c.in.Buffered() == 0
}

// exchange sends a message and reads the header of its response. After an error the
// connection is closed.
//
// The rest of a long message is written meanwhile: an app may answer before it has read
// everything, and may read no further before its answer is read.
func (c *conn) exchange(message []byte) (*http.Response, error) {
	n, err := c.Write(message[:min(len(message), aloneBytes)])
	c.sent = n > 0
	switch {
	case err != nil && n == 0: // what could be read is an answer to something else
		_ = c.Close()
		return nil, err
	case err != nil || n == len(message):
		c.wrote(err)
	default:
		go func() {
			_, err := c.Write(message[n:])
			c.wrote(err)
		}()
	}
	response, err := c.readHeader()
	if err != nil {
		_ = c.Close() // the error that counts is there already
		<-c.written
		return nil, err
	}
	return response, nil
}

// wrote notes that the message is written, or can't be. That doesn't end the reading at
// once: an app that has enough answers, and then closes.
func (c *conn) wrote(err error) {
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) { // else the reading ends, too
		_ = c.SetReadDeadline(time.Now().Add(lastAnswer)) // one that is closed needs none
	}
	c.written <- err == nil
}

// readHeader reads up to the header of the final response.
func (c *conn) readHeader() (*http.Response, error) {
	c.headerLeft = headerBytes
	defer func() { c.headerLeft = -1 }()
	for {
		response, err := http.ReadResponse(c.in, nil)
		if err != nil || response.StatusCode >= http.StatusOK || response.StatusCode == http.StatusSwitchingProtocols {
			return response, err
		}
	}
}

// Read reads for the buffer, a header only as far as it is bounded.
func (c *conn) Read(p []byte) (int, error) {
	if c.headerLeft < 0 {
		return c.Conn.Read(p)
	}
	if c.headerLeft == 0 {
		return 0, fmt.Errorf("the response's headers exceeded %d bytes", headerBytes)
	}
	n, err := c.Conn.Read(p[:min(len(p), c.headerLeft)])
	c.headerLeft -= n
	return n, err
}
