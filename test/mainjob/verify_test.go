//go:build verify

package mainjob_test

import (
	"testing"
	"time"
)

// The scenarios at their full length, with the timing that ships.
const (
	shippedFence = 15 * time.Second
	shippedEvict = 20 * time.Second
)

func TestVerifyOutageOfAMinuteEvictsNobody(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]wireMode{"connections refused": wireAway, "packets swallowed": wireFrozen} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outage(t, mode, settings{}, shippedFence, time.Minute)
		})
	}
}

func TestVerifyCompleteOpenFor30Seconds(t *testing.T) {
	t.Parallel()
	t.Run("blocks no settle", func(t *testing.T) {
		t.Parallel()
		openCompleteBlocksNoSettle(t, settings{}, 30*time.Second)
	})
	t.Run("blocks no eviction", func(t *testing.T) {
		t.Parallel()
		openCompleteBlocksNoEviction(t, settings{}, shippedEvict, 45*time.Second)
	})
}

func TestVerifyKilledEverythingLosesNothing(t *testing.T) {
	t.Parallel()
	newChaos(t, 3, quick()).run(90, 500, 2*time.Minute)
}
