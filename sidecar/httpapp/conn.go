package httpapp

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"
)

// conn is a connection to the app that carries one request at a time.
type conn struct {
	net.Conn
	state      syscall.RawConn // of what lies under it; nil: it can't be asked
	in         *bufio.Reader
	headerLeft int        // bytes that may still come before the header has ended; -1: any number
	written    chan error // of the request, once that is over
	sent       bool       // something of the request may have arrived; valid once written has said so
	kept       bool       // it has carried a request before
	idleSince  time.Time
}

// newConn returns the connection that lies on plain, or is plain.
func newConn(c, plain net.Conn) *conn {
	wrapped := &conn{Conn: c, headerLeft: -1, written: make(chan error, 1)}
	wrapped.in = bufio.NewReader(wrapped)
	if asked, ok := plain.(syscall.Conn); ok {
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
	select {
	case err := <-c.written:
		return err == nil && c.in.Buffered() == 0
	default:
		return false
	}
}

// exchange sends a message and reads the header of its response. After an error the
// connection is closed.
//
// A long message is written meanwhile: an app may answer before it has read everything,
// and may read no further before its answer is read.
func (c *conn) exchange(message []byte) (*http.Response, error) {
	if len(message) <= aloneBytes {
		c.write(message)
	} else {
		go c.write(message)
	}
	response, err := c.readHeader()
	if err != nil {
		_ = c.Close() // the error that counts is there already
		_ = <-c.written
		return nil, err
	}
	return response, nil
}

// write doesn't tell a failure to the reader: an app that has enough answers, and then
// closes.
func (c *conn) write(message []byte) {
	n, err := c.Write(message)
	c.sent = n > 0
	c.written <- err
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
