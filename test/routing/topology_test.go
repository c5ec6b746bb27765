package routing_test

import (
	"fmt"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/fleettest"
)

// The topology is versioned: each join and leave makes a version at once, tells
// who listens, and can be looked up later.
func TestTopologyIsVersioned(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.startLeader()
	listener := listen(t, f, "sched.topology")
	version := func() int64 { return one[int64](f, "SELECT max(version) FROM sched.topology_snapshot") }
	f.awaitTrue(fleettest.Soon, "no topology", "SELECT topology_version > 0 FROM sched.fleet")
	before := version()
	a := newApp(t, nil)
	s := f.start(a, fleettest.Settings{fleettest.SetLabels: "zone=cn-north"})
	worker := s.Worker(t, f.db)
	f.awaitTrue(fleettest.Soon, "no join", "SELECT EXISTS (SELECT FROM sched.topology_change WHERE worker_id = $1 AND what = 'join' AND version > $2 AND after->'labels'->>'zone' = 'cn-north')", worker, before)
	joinedAt := one[time.Time](f, "SELECT clock_timestamp()")
	joined := version()
	first := strconv.FormatInt(one[int64](f, "SELECT min(version) FROM sched.topology_change WHERE worker_id = $1", worker), 10)
	var heard []string
	fleettest.Eventually(t, fleettest.Soon, func() bool {
		heard = append(heard, listener.drop()...)
		return slices.Contains(heard, first)
	}, func() string { return fmt.Sprintf("nobody is told of version %s: %v", first, heard) })

	s.Signal(syscall.SIGTERM)
	require.Zero(t, s.AwaitExit(t, fleettest.Soon))
	f.awaitTrue(fleettest.Soon, "no leave", "SELECT EXISTS (SELECT FROM sched.topology_change WHERE worker_id = $1 AND what = 'leave' AND version > $2)", worker, joined)
	fleettest.Eventually(t, fleettest.Soon, func() bool { return len(listener.drop()) > 0 }, func() string { return "nobody is told of the leave" })
	left := version()

	for range 4 { // more versions than are kept whole
		other := f.start(a, nil)
		f.awaitTrue(fleettest.Soon, "no join", "SELECT EXISTS (SELECT FROM sched.topology_change WHERE worker_id = $1 AND what = 'join')", other.Worker(t, f.db))
		other.Signal(syscall.SIGTERM)
		require.Zero(t, other.AwaitExit(t, fleettest.Soon))
		f.awaitTrue(fleettest.Soon, "no leave", "SELECT EXISTS (SELECT FROM sched.topology_change WHERE worker_id = $1 AND what = 'leave')", other.Worker(t, f.db))
	}
	require.LessOrEqual(t, one[int](f, "SELECT count(*)::int FROM sched.topology_snapshot"), 3)
	require.True(t, one[bool](f, "SELECT bool_and(sha256 = encode(sha256(convert_to(topology::text, 'UTF8')), 'hex')) FROM sched.topology_snapshot"))
	require.True(t, one[bool](f, "SELECT bool_and(taken_at_ns / 1000 = (extract(epoch FROM taken_at) * 1000000)::bigint) FROM sched.topology_snapshot"))
	require.Zero(t, one[int](f, "SELECT count(*)::int FROM (SELECT version, lag(version) OVER (ORDER BY version) AS previous FROM (SELECT DISTINCT version FROM sched.topology_change) AS v) AS s WHERE version <= previous"))

	require.NotContains(t, f.sched("topology"), worker, "it has left")
	require.Contains(t, f.sched("topology", "--at", fmt.Sprint(joined)), worker, "as of its version")
	require.Contains(t, f.sched("topology", "--at", joinedAt.Format(time.RFC3339Nano)), worker, "as of its time")
	require.NotContains(t, f.sched("topology", "--at", fmt.Sprint(left)), worker)
	diff := f.sched("topology", "diff", fmt.Sprint(before), fmt.Sprint(joined))
	require.Contains(t, diff, "+ "+worker)
	require.Contains(t, f.sched("topology", "diff", fmt.Sprint(joined), fmt.Sprint(left)), "- "+worker)
}
