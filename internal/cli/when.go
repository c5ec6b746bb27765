package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// parseSpan reads a length of time: Go's notation, with days before it (2d12h).
func parseSpan(text string) (time.Duration, error) {
	rest := text
	var days time.Duration
	if before, after, found := strings.Cut(text, "d"); found {
		n, err := strconv.ParseUint(before, 10, 16)
		if err != nil {
			return 0, errSpan(text)
		}
		days, rest = time.Duration(n)*24*time.Hour, after
		if rest == "" {
			return days, nil
		}
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 {
		return 0, errSpan(text)
	}

	return days + d, nil
}

func errSpan(text string) error {
	return fmt.Errorf("%q is no length of time: write it like 30s, 15m, 2h or 3d12h", text)
}

// timeLayouts are those that parseTime reads; without an offset a time is local.
func timeLayouts() []string {
	return []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02"}
}

func parseTime(text string) (time.Time, error) {
	for _, layout := range timeLayouts() {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}

	return time.Time{}, fmt.Errorf("%q is no time: write it like 2030-01-31T12:00:00Z, or 2030-01-31 12:00 in your own zone", text)
}

// spanValue is a flag that holds a length of time.
type spanValue struct {
	d     time.Duration
	given bool
}

func (v *spanValue) String() string {
	if !v.given {
		return ""
	}

	return v.d.String()
}

func (v *spanValue) Type() string { return "duration" }

func (v *spanValue) Set(text string) (err error) {
	v.d, err = parseSpan(text)
	v.given = err == nil

	return err
}

// momentValue is a flag that holds a time, or how long ago one was.
type momentValue struct {
	t     time.Time
	ago   time.Duration
	isAgo bool
}

func (v *momentValue) String() string {
	switch {
	case v.isAgo:
		return v.ago.String()
	case v.t.IsZero():
		return ""
	default:
		return v.t.Format(time.RFC3339)
	}
}

func (v *momentValue) Type() string { return "time" }

func (v *momentValue) Set(text string) error {
	if ago, err := parseSpan(text); err == nil {
		v.ago, v.isAgo = ago, true

		return nil
	}
	t, err := parseTime(text)
	if err != nil {
		return fmt.Errorf("%w, or how long ago, like 2h", err)
	}
	v.t, v.isAgo = t, false

	return nil
}

// pairsValue is a flag that adds one key=value each time it is given. A value may
// hold anything, commas too.
type pairsValue map[string]string

func (v pairsValue) String() string { return "" }
func (v pairsValue) Type() string   { return "key=value" }

func (v pairsValue) Set(text string) error {
	key, value, found := strings.Cut(text, "=")
	if !found || key == "" {
		return fmt.Errorf("%q is no key=value", text)
	}
	v[key] = value

	return nil
}
