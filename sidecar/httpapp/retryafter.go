package httpapp

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Bounds of an app's Retry-After. The least is the header's own unit, so that
// "now" doesn't become a busy loop; the most keeps a mistake from parking a
// task out of sight.
const (
	minRetryAfter = time.Second
	maxRetryAfter = time.Hour
)

// retryAfter reads a Retry-After header (RFC 9110, 10.2.3): whole seconds or
// an HTTP date. It returns false when there is none to act on.
func retryAfter(value string, now time.Time) (time.Duration, bool) {
	value = strings.TrimSpace(value)
	if value == "" {
		return 0, false
	}
	if isDigits(value) {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(maxRetryAfter/time.Second) {
			return maxRetryAfter, true
		}
		return max(time.Duration(seconds)*time.Second, minRetryAfter), true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	return min(max(at.Sub(now), minRetryAfter), maxRetryAfter), true
}

func isDigits(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return true
}
