package jobs

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// param is one argument of sched.enqueue. Value is a string, an int32, a
// time.Time or, for jsonb, a json.RawMessage: what all drivers and
// encoding/json agree on.
type param struct {
	name, cast string
	value      any
}

// delayParam carries a [Delay]; no argument of sched.enqueue has its name.
const delayParam = "delay"

// paramList collects params. It refuses what can't be expressed at all, and
// keeps the first reason; whether a value is in range is the server's to say.
type paramList struct {
	params []param
	err    error
}

func (l *paramList) add(name, cast string, value any) {
	l.params = append(l.params, param{name: name, cast: cast, value: value})
}

func (l *paramList) refuse(format string, args ...any) {
	if l.err == nil {
		l.err = fmt.Errorf("%w: "+format, append([]any{ErrInvalidArgument}, args...)...)
	}
}

func (l *paramList) addText(name string, value *string) {
	if value == nil {
		return
	}
	// In a text parameter a NUL breaks the wire protocol itself.
	if strings.ContainsRune(*value, 0) {
		l.refuse("%s %q has a NUL character", name, *value)
	}
	l.add(name, "text", *value)
}

func (l *paramList) addInt(name string, value *int) {
	if value == nil {
		return
	}
	if *value < math.MinInt32 || *value > math.MaxInt32 {
		l.refuse("%s %d is no 32-bit number", name, *value)
	}
	l.add(name, "int", int32(*value))
}

func (l *paramList) addTime(name string, value time.Time) {
	if value.IsZero() {
		return
	}
	value = value.UTC()
	if y := value.Year(); y < 1 || y > 9999 {
		l.refuse("%s is in the year %d; use one from 1 to 9999", name, y)
	}
	l.add(name, "timestamptz", value)
}

// addInterval renders a duration as Postgres reads it, without a float on the way.
func (l *paramList) addInterval(name string, value *time.Duration) {
	if value != nil {
		l.add(name, "interval", strconv.FormatInt(value.Microseconds(), 10)+" microseconds")
	}
}

func (l *paramList) addPairs(name string, pairs map[string]string) {
	if len(pairs) == 0 {
		return
	}
	body, err := json.Marshal(pairs)
	if err != nil {
		l.refuse("%s: %w", name, err)
	}
	l.add(name, "jsonb", json.RawMessage(body))
}
