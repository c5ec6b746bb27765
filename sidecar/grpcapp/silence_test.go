package grpcapp_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/sidecar/dispatch"
	"github.com/sched-sidecar/sched/sidecar/grpcapp"
)

func TestSilentAppIsGone(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *grpcapp.Config) { c.Heartbeat = 20 * time.Millisecond })
	stream := b.raw(t)
	welcomed(t, stream, hello("mute", 10))
	var err error
	for err == nil {
		_, err = stream.Recv()
	}
	require.Equal(t, codes.DeadlineExceeded, status.Code(err))
}

// An app that lives but doesn't read any more is found silent, although nothing can
// be written to it.
func TestAppThatDoesNotReadIsGone(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *grpcapp.Config) { c.Heartbeat, c.Grace = 100*time.Millisecond, time.Nanosecond })
	stream := b.raw(t)
	welcomed(t, stream, hello("stuck", 100))
	var outcomes []<-chan jobs.Outcome
	for i := range int64(20) { // more than what is on the way between the two may hold
		large := task(i+1, "k")
		large.Args = json.RawMessage(`"` + strings.Repeat("x", 64<<10) + `"`)
		outcomes = append(outcomes, b.begin(t.Context(), large))
	}
	require.Eventually(t, func() bool { return b.Probe(t.Context()) != nil }, patience, time.Millisecond)
	for _, outcome := range outcomes {
		require.Contains(t, []jobs.OutcomeKind{jobs.OutcomeRetry, jobs.OutcomeHandBack}, (<-outcome).Kind)
	}
}

func TestStreamWithoutHelloEnds(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *grpcapp.Config) { c.HelloTimeout = 20 * time.Millisecond })
	_, err := b.raw(t).Recv()
	require.Equal(t, codes.DeadlineExceeded, status.Code(err), "%v", err)
}

// What the app never had is no attempt.
func TestTaskThatWaitsForRoomIsHandedBackAtItsDeadline(t *testing.T) {
	t.Parallel()
	b := setup(t)
	stream := b.raw(t)
	welcomed(t, stream, hello("full", 1))
	require.Eventually(t, func() bool { return b.capacity.Load() == 1 }, patience, time.Millisecond)
	b.begin(t.Context(), task(1, "k"))
	tasks(t, stream, 1)
	ctx, cancel := context.WithCancelCause(t.Context())
	waits := b.begin(ctx, task(2, "k"))
	cancel(dispatch.ErrDeadline)
	require.Equal(t, jobs.OutcomeHandBack, (<-waits).Kind)
}
