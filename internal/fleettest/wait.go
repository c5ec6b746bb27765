package fleettest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Eventually polls on the test's own goroutine, so that the condition may use
// require, and explains a failure with what it saw last.
func Eventually(t *testing.T, within time.Duration, condition func() bool, explain func() string) {
	t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline.C:
			if condition() {
				return
			}
			require.FailNowf(t, "not in time", "after %s: %s", within, explain())
		}
	}
}

// Throughout checks a condition again and again for a while: for what must not
// happen.
func Throughout(t *testing.T, window time.Duration, condition func() bool, explain func() string) {
	t.Helper()
	over := time.NewTimer(window)
	defer over.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if !condition() {
			require.FailNow(t, "didn't hold", explain())
		}
		select {
		case <-tick.C:
		case <-over.C:
			return
		}
	}
}
