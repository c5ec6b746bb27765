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
	note := func(took time.Duration, tasks int) bool { return d.note(now, took, tasks, 1) }
	require.False(t, note(time.Second, 1))
	require.False(t, note(time.Second, 1))
	require.False(t, note(time.Millisecond, 1), "one that is quick")
	require.False(t, note(time.Second, 1))
	require.False(t, note(time.Second, 1))
	require.False(t, d.on(now))
	require.True(t, note(time.Second, 1))
	require.True(t, d.on(now))

	now = now.Add(dragFor)
	require.False(t, d.on(now), "some from the front are tried now and then")
	require.False(t, note(time.Second, 1))
	require.False(t, d.on(now), "a single one may have another reason")
	require.False(t, note(time.Second, 1), "that is no news")
	require.True(t, d.on(now))
	require.False(t, d.note(now, time.Second, 1, 10))
	require.False(t, d.note(now, time.Second, 1, 10))
	require.True(t, d.on(now.Add(20*10*time.Second-1)), "many workers try rarely")
	now = now.Add(dragForMax)
	require.False(t, d.on(now))
	require.False(t, note(time.Millisecond, 1))
	require.False(t, note(time.Second, 1))
	require.False(t, d.on(now), "the dead rows are gone")

	for range 5 {
		require.False(t, note(100*time.Millisecond, 500), "many tasks take their time")
	}
}
