//go:build verify

package postgres_test

import (
	"testing"
	"time"
)

// With the timing that ships.
func TestVerifyOutcomesOutliveAnOutage(t *testing.T) {
	t.Parallel()
	outcomesOutlive(t, settings{}, 40*time.Second)
}
