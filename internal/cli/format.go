package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// none stands in a table for what isn't there.
const none = "-"

// localTime shows a moment in the reader's own zone.
func localTime(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

func localTimeIfAny(t *time.Time) string {
	if t == nil {
		return none
	}

	return localTime(*t)
}

// preciseTime is localTime with its zone and milliseconds.
func preciseTime(t *time.Time) string {
	if t == nil {
		return ""
	}

	return t.Local().Format("2006-01-02 15:04:05.000 MST")
}

// span shows a length of time with its two or three leading digits.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
	case d < 2*time.Minute:
		return strconv.Itoa(int(d.Seconds())) + "s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d.Minutes())) + "m"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + "h"
	default:
		return strconv.Itoa(int(d.Hours()/24)) + "d"
	}
}

// number shows a count with its thousands apart.
func number[N int | int64](n N) string {
	digits := strconv.FormatInt(int64(n), 10)
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}

	return sign + digits
}

// atLeast shows a count that may have reached its bound.
func atLeast(n int64, more bool) string {
	if more {
		return number(n) + "+"
	}

	return number(n)
}

// plural is "1 task", "2 tasks".
func plural[N int | int64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}

	return number(n) + " " + one + "s"
}

// pairs shows a JSON object as key=value, key=value.
func pairs(object json.RawMessage) string {
	var m map[string]any
	if json.Unmarshal(object, &m) != nil {
		return string(object)
	}
	parts := make([]string, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if m[key] == nil {
			m[key] = none
		}
		parts = append(parts, fmt.Sprintf("%s=%v", key, m[key]))
	}

	return strings.Join(parts, ", ")
}

// indented shows JSON over several lines if it has any depth.
func indented(value json.RawMessage) string {
	if len(value) == 0 || string(value) == "null" {
		return ""
	}
	const shortEnough = 60
	if len(value) <= shortEnough {
		return string(value)
	}
	var b bytes.Buffer
	if json.Indent(&b, value, "", "  ") != nil {
		return string(value)
	}

	return b.String()
}

// statusColor is that of a task's status or an attempt's outcome.
func statusColor(status string) color {
	switch status {
	case "running":
		return cyan
	case "completed":
		return green
	case "retryable", "retry", "rescued":
		return yellow
	case "discarded":
		return red
	case "cancelled":
		return grey
	default:
		return ""
	}
}
