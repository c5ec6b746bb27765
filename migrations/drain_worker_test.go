package migrations_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

// One way only: a worker that drains, or has ended, stays as it is.
func TestDrainWorker(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for from, want := range map[string]string{
		"pending": "draining 1", "active": "draining 1", "draining": "draining 0", "done": "done 0", "evicted": "evicted 0",
	} {
		exec(t, pool, "INSERT INTO sched.worker (id, client_id, state) VALUES ('w-' || $1, 'c', $1)", from)
		state := one[string](t, pool, "SELECT sched.drain_worker('w-' || $1)", from)
		require.Equal(t, want, one[string](t, pool, "SELECT state || ' ' || state_version FROM sched.worker WHERE id = 'w-' || $1", from))
		require.Equal(t, want[:len(want)-2], state)
	}
	require.Equal(t, "drained by postgres", one[string](t, pool, "SELECT reason FROM sched.worker WHERE id = 'w-active'"))

	err := refused(t, pool, "SC404", "SELECT sched.drain_worker('w-none')")
	require.Equal(t, "sched.drain_worker: there is no worker 'w-none'", err.Message)
	refused(t, pool, "SC404", "SELECT sched.drain_worker(NULL)")
}
