package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// quietEvery is how often the status is printed where it can't be updated.
const quietEvery = 2 * time.Second

// screen prints what happens: events as lines with the time since the start,
// and a status that is one updating line on a terminal, a line now and then
// elsewhere. It is used by one goroutine.
type screen struct {
	out      io.Writer
	terminal bool
	start    time.Time
	now      func() time.Time
	last     time.Time // of the status, where it can't be updated
	shown    bool      // the status stands on the current line
}

func newScreen(file *os.File, start time.Time) *screen {
	info, err := file.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	return &screen{out: file, terminal: terminal, start: start, now: time.Now}
}

// elapsed is the time since the start.
func (s *screen) elapsed() time.Duration { return s.now().Sub(s.start) }

// say prints an event.
func (s *screen) say(format string, args ...any) {
	s.wipe()
	s.write("%6.1f s  %s\n", s.elapsed().Seconds(), fmt.Sprintf(format, args...))
}

// print prints a line without the time.
func (s *screen) print(format string, args ...any) {
	s.wipe()
	s.write("%s\n", fmt.Sprintf(format, args...))
}

// status shows the state of things.
func (s *screen) status(line string) {
	line = fmt.Sprintf("%6.1f s  %s", s.elapsed().Seconds(), line)
	if s.terminal {
		s.write("\r\x1b[K"+noWrap+"%s"+wrap, line)
		s.shown = true
		return
	}
	if now := s.now(); now.Sub(s.last) >= quietEvery {
		s.last = now
		s.write("%s\n", line)
	}
}

func (s *screen) wipe() {
	if s.shown {
		s.write("\r\x1b[K")
		s.shown = false
	}
}

// A status longer than the terminal is wide is cut there: wrapped, it couldn't
// be updated in place.
const (
	noWrap = "\x1b[?7l"
	wrap   = "\x1b[?7h"
)

// write has nobody to tell when the terminal is gone.
func (s *screen) write(format string, args ...any) { _, _ = fmt.Fprintf(s.out, format, args...) }

// barWidth is the length of the progress bar in characters.
const barWidth = 20

// bar draws done of total.
func bar(done, total int64) string {
	filled := 0
	if total > 0 {
		filled = int(min(max(done, 0), total) * barWidth / total)
	}
	return strings.Repeat("█", filled) + strings.Repeat("░", barWidth-filled)
}

// thousands writes a number with commas.
func thousands(n int64) string {
	digits := fmt.Sprint(max(n, -n))
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if n < 0 {
		return "-" + digits
	}
	return digits
}
