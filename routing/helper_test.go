package routing_test

import (
	"context"
	"testing"
	"time"
)

const (
	patience = time.Minute // bounds every wait of these tests
	pause    = 100 * time.Millisecond
)

// contextThatEnds returns one that is over: what has arrived by now counts.
func contextThatEnds(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx, cancel
}
