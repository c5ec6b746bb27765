package main

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestRunSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, run(t.Context(), "127.0.0.1:0", 0, ""), "DATABASE_URL")
	require.ErrorContains(t, run(t.Context(), "127.0.0.1:0", 0, "://"), "DATABASE_URL")
}

func TestRunRefusesATakenAddress(t *testing.T) {
	t.Parallel()
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	require.ErrorContains(t, run(t.Context(), taken.Addr().String(), 0, "postgres://127.0.0.1:1/x"), "address already in use")
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := run(ctx, "127.0.0.1:0", 0, "postgres://127.0.0.1:1/x")
	if err != nil { // ended before it listened
		require.ErrorIs(t, err, context.Canceled)
	}
}
