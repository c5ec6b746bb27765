//go:build verify

package postgres_test

import (
	"testing"
	"time"
)

// healed is how soon after a trouble is over a task that is enqueued starts.
const healed = 5 * time.Second

// With the timing that ships.
func TestVerifyOutcomesOutliveAnOutage(t *testing.T) {
	t.Parallel()
	outcomesOutlive(t, settings{}, 40*time.Second)
}
