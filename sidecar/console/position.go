package console

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// position is a place in a list: that of its last row so far. Lists use what they are
// ordered by, and leave the rest as it is.
type position struct {
	ID       int64
	At       time.Time
	Priority int
	Queue    string
}

// newest is before all rows of a list that counts down.
func newest() position {
	return position{ID: math.MaxInt64, At: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}
}

// String is the position in an address: the id, and if there is a time, it in
// microseconds since 1970, the priority and the queue.
func (p position) String() string {
	if p.At.IsZero() {
		return strconv.FormatInt(p.ID, 10)
	}
	return fmt.Sprintf("%d.%d.%d.%s", p.ID, p.At.UnixMicro(), p.Priority, p.Queue)
}

// parsePosition reads a position that [position.String] wrote; with a time if timed. It
// reports false for anything else: such a list begins at its start.
func parsePosition(text string, timed bool) (p position, ok bool) {
	parts := strings.SplitN(text, ".", 4)
	if len(text) > filterMax || !isText(text) || timed != (len(parts) == 4) {
		return p, false
	}
	var err error
	if p.ID, err = strconv.ParseInt(parts[0], 10, 64); err != nil || p.ID <= 0 {
		return p, false
	}
	if !timed {
		return p, true
	}
	micros, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil || micros < 0 || micros > newest().At.UnixMicro() {
		return p, false
	}
	if p.Priority, err = strconv.Atoi(parts[2]); err != nil || p.Priority < 0 || p.Priority > math.MaxInt16 {
		return p, false
	}
	p.At, p.Queue = time.UnixMicro(micros), parts[3]
	return p, true
}
