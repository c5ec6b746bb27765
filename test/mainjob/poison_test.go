package mainjob_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// A task that takes its worker down three times is given up, and says why.
func TestPoisonPillIsDiscarded(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.startLeader()
	a := newApp(t, func(c *call) answer {
		if c.kind == "poison" {
			<-c.ctx.Done()
		}
		return answer{status: http.StatusOK}
	})

	id := enqueue(t, f.db, "poison")
	for death := 1; death <= 3; death++ {
		s := f.start(a, nil)
		c := a.await(t, id, death, soon)
		s.kill()
		f.awaitEvicted(c.worker(), soon)
		k := awaitTask(t, f.db, id, soon, "not running", func(k task) bool { return k.Status != "running" })
		require.Equal(t, death, k.Lost)
		if death < 3 {
			require.Equal(t, "available", k.Status)
		}
	}
	k := readTask(t, f.db, id)
	require.Equal(t, "discarded", k.Status)
	require.NotNil(t, k.EndTime)
	require.Contains(t, text(k.Error), "3", "the reason says how many workers died")
	require.Contains(t, text(k.Error), "worker")

	// It's over with it: the next sidecar lives, and works.
	s := f.start(a, nil)
	awaitStatus(t, f.db, enqueue(t, f.db, "harmless"), "completed", soon)
	require.Len(t, a.callsOf(id), 3)
	require.False(t, s.hasExited())
}
