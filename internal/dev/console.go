package dev

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	// lineMax cuts a longer line in pieces.
	lineMax = 64 << 10
	// pipePatience is how long output may still come after the app's end.
	pipePatience = time.Second
)

// source is one of those whose lines are interleaved.
type source struct {
	name   string
	colour int // of ANSI
}

// The sources, in the order in which they come up.
func postgresSource() source { return source{"postgres", 34} }
func sidecarSource() source  { return source{"sidecar", 36} }
func appSource() source      { return source{"app", 32} }

const nameWidth = len("postgres")

// console interleaves the lines of several sources, each behind its name.
type console struct {
	mu     sync.Mutex
	out    io.Writer
	colour bool
}

// write writes text as it is.
func (c *console) write(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = io.WriteString(c.out, text) // a person's terminal, which may be gone
}

// say writes one line of a source.
func (c *console) say(from source, format string, args ...any) {
	c.line(from, fmt.Sprintf(format, args...))
}

func (c *console) line(from source, line string) {
	prefix := from.name + strings.Repeat(" ", nameWidth-len(from.name)) + " | "
	if c.colour {
		prefix = fmt.Sprintf("\x1b[%dm%s\x1b[0m", from.colour, prefix)
	}
	c.write(prefix + line + "\n")
}

// writer returns a writer for a source's output.
func (c *console) writer(from source) *lineWriter { return &lineWriter{console: c, from: from} }

// lineWriter passes on whole lines.
type lineWriter struct {
	console *console
	from    source

	mu   sync.Mutex
	rest []byte
}

// Write never fails.
func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rest = append(w.rest, p...)
	for {
		end := bytes.IndexByte(w.rest, '\n')
		switch {
		case end >= 0:
			w.console.line(w.from, strings.TrimSuffix(string(w.rest[:end]), "\r"))
			w.rest = w.rest[end+1:]
		case len(w.rest) > lineMax:
			w.console.line(w.from, string(w.rest[:lineMax]))
			w.rest = w.rest[lineMax:]
		default:
			w.rest = bytes.Clone(w.rest) // so that what was written can go
			return len(p), nil
		}
	}
}

// flush passes on what came without a line break.
func (w *lineWriter) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.rest) > 0 {
		w.console.line(w.from, string(w.rest))
		w.rest = nil
	}
}

// pipe is a file to write to whose lines are passed on.
type pipe struct {
	file *os.File // the write end, for the child
	read *os.File
	done chan struct{}
}

func (c *console) pipe(from source) (*pipe, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p := &pipe{file: write, read: read, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		out := c.writer(from)
		_, _ = io.Copy(out, read) // ends with the write end, or at close's deadline
		out.flush()
	}()
	return p, nil
}

// close waits for what is still in the pipe: until all have closed it, or, should something that left the app's group
// keep it open, for a moment.
func (p *pipe) close() error {
	errs := []error{p.file.Close(), p.read.SetReadDeadline(time.Now().Add(pipePatience))}
	<-p.done
	return errors.Join(append(errs, p.read.Close())...)
}
