package governor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSkips(t *testing.T) {
	t.Parallel()
	var s skips
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	require.Empty(t, s.probe(now))
	backoff, isNews := s.refuse("k", now)
	require.True(t, isNews)
	require.Equal(t, skipBackoffMin, backoff)
	_, isNews = s.refuse("k", now.Add(time.Millisecond))
	require.False(t, isNews, "tasks that were on their way change nothing")
	require.Equal(t, []string{"k"}, s.list())

	want := skipBackoffMin
	for range 10 {
		require.Empty(t, s.probe(now.Add(want-time.Millisecond)), "not before the backoff is over")
		now = now.Add(want)
		require.Equal(t, "k", s.probe(now))
		require.Empty(t, s.probe(now), "one task at a time")
		want = min(2*want, skipBackoffMax)
		backoff, isNews = s.refuse("k", now)
		require.True(t, isNews)
		require.Equal(t, want, backoff)
	}
	now = now.Add(want)
	require.Equal(t, "k", s.probe(now))
	require.Equal(t, "k", s.probe(now.Add(want)), "a probe that found no task is repeated")
	s.accept("k")
	require.Empty(t, s.list())
}

// A kind of which no task is left is forgotten, once it was skipped for long.
func TestSkipsAreForgotten(t *testing.T) {
	t.Parallel()
	var s skips
	now := start()
	backoff, _ := s.refuse("email/123", now)
	for backoff < skipBackoffMax {
		s.forget("email/123")
		require.Len(t, s.list(), 1, "after %s", backoff)
		now = now.Add(backoff)
		require.NotEmpty(t, s.probe(now))
		backoff, _ = s.refuse("email/123", now)
	}
	s.forget("email/123")
	require.Empty(t, s.list())
}

func TestSlots(t *testing.T) {
	t.Parallel()
	var s slots
	require.Zero(t, s.take(1))
	require.True(t, s.setLimit(3))
	require.Equal(t, 2, s.take(2))
	require.Equal(t, 1, s.take(5))
	require.False(t, s.setLimit(1), "shrinking takes nothing away")
	require.Zero(t, s.take(1))
	s.free(2)
	require.Zero(t, s.take(1), "and holds until enough is free")
	s.free(1)
	require.Equal(t, 1, s.take(1))
	require.Panics(t, func() { s.free(2) })
}
