package governor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDrag(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var d drag
	note := func(took time.Duration, tasks int) bool { return d.note(now, took, tasks) }
	require.False(t, note(time.Second, 1))
	require.False(t, note(time.Second, 1))
	require.False(t, note(time.Millisecond, 1), "one that is quick")
	require.False(t, note(time.Second, 1))
	require.False(t, note(time.Second, 1))
	require.False(t, d.on(now))
	require.True(t, note(time.Second, 1))
	require.True(t, d.on(now))

	now = now.Add(dragFor)
	require.False(t, d.on(now), "one from the front is tried now and then")
	require.False(t, note(time.Second, 1), "that is no news")
	require.True(t, d.on(now))
	now = now.Add(dragFor)
	require.False(t, note(time.Millisecond, 1))
	require.False(t, note(time.Second, 1))
	require.False(t, d.on(now), "the dead rows are gone")

	for range 5 {
		require.False(t, note(100*time.Millisecond, 500), "many tasks take their time")
	}
}
