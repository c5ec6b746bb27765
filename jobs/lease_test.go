package jobs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sched-sidecar/sched/jobs"
)

func TestLeaseToken(t *testing.T) {
	t.Parallel()

	at := time.Date(2025, 11, 24, 16, 0, 0, 123456000, time.UTC)
	lease := jobs.Lease{WorkerID: "w-3f9k2m7q4t1x", AttemptedAt: at}
	require.Equal(t, "w-3f9k2m7q4t1x.1764000000123456", lease.String())

	got, err := jobs.ParseLease(lease.String())
	require.NoError(t, err)
	require.Equal(t, lease, got)

	elsewhere := jobs.Lease{WorkerID: lease.WorkerID, AttemptedAt: at.In(time.FixedZone("there", 3600))}
	require.Equal(t, lease.String(), elsewhere.String(), "a zone must not change the token")
}

func TestParseLeaseRefuses(t *testing.T) {
	t.Parallel()

	for name, token := range map[string]string{
		"empty":         "",
		"no dot":        "w-3f9k2m7q4t1x",
		"no worker":     ".1764000000123456",
		"no time":       "w-3f9k2m7q4t1x.",
		"second dot":    "w-3f9k2m7q4t1x.1764000000.123456",
		"no number":     "w-3f9k2m7q4t1x.soon",
		"negative":      "w-3f9k2m7q4t1x.-5",
		"past 64 bits":  "w-3f9k2m7q4t1x.9223372036854775808",
		"space in time": "w-3f9k2m7q4t1x. 1764000000123456",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := jobs.ParseLease(token)
			require.ErrorIs(t, err, jobs.ErrInvalidArgument)
			require.ErrorContains(t, err, "Sched-Lease", "the error says what to do")
		})
	}
}

func TestLeaseRoundTrip(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(t *rapid.T) {
		lease := jobs.Lease{
			WorkerID:    rapid.StringMatching(`w-[0-9a-z]{12}`).Draw(t, "worker"),
			AttemptedAt: time.UnixMicro(rapid.Int64Range(0, 99_999_999_999_999_999).Draw(t, "micros")).UTC(),
		}
		got, err := jobs.ParseLease(lease.String())
		require.NoError(t, err)
		require.Equal(t, lease, got)
	})
}

func FuzzParseLease(f *testing.F) {
	for _, seed := range []string{"w-3f9k2m7q4t1x.1764000000123456", "w.+5", "w.05", "..", "w.9223372036854775807", "\x00.1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		lease, err := jobs.ParseLease(token)
		if err != nil {
			require.ErrorIs(t, err, jobs.ErrInvalidArgument)
			require.Zero(t, lease)
			return
		}
		require.NotEmpty(t, lease.WorkerID)
		again, err := jobs.ParseLease(lease.String())
		require.NoError(t, err)
		require.Equal(t, lease, again)
	})
}
