package routing_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/fleettest"
)

// Every pair of the selector must be in the worker's labels, exactly.
func TestSelectorsMatchExactly(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	plain, zone, both := newApp(t, nil), newApp(t, nil), newApp(t, nil)
	f.start(plain, nil)
	f.start(zone, fleettest.Settings{fleettest.SetLabels: "zone=cn-north,empty="})
	f.start(both, fleettest.Settings{fleettest.SetLabels: "zone=cn-north,gpu=true,empty=no"})

	wants := map[int64]*app{
		f.enqueue("task", selector(`{"gpu": "true", "zone": "cn-north"}`)): both,
		f.enqueue("task", selector(`{"empty": ""}`)):                       zone,
		f.enqueue("task", selector(`{"empty": "no"}`)):                     both,
		f.enqueue("task", selector(`{"zone": "cn-north", "empty": ""}`)):   zone,
	}
	anyone := []int64{
		f.enqueue("task"), f.enqueue("task", selector(`{}`)),
		f.enqueue("task", selectorOf("os", runtime.GOOS)), f.enqueue("task", selectorOf("arch", runtime.GOARCH)),
	}
	if host, err := os.Hostname(); err == nil {
		anyone = append(anyone, f.enqueue("task", selectorOf("hostname", host)))
	}
	nobody := []int64{
		f.enqueue("task", selector(`{"gpu": "True", "zone": "cn-north"}`)),
		f.enqueue("task", selector(`{"GPU": "true"}`)),
		f.enqueue("task", selector(`{"gpu": ""}`)),
		f.enqueue("task", selector(`{"zone": "cn-nort"}`)),
		f.enqueue("task", selector(`{"zone": "cn-north "}`)),
		f.enqueue("task", selector(`{"unheard-of": "x"}`)),
		f.enqueue("task", selector(`{"gpu": "true", "zone": "cn-north", "unheard-of": ""}`)),
		f.enqueue("task", option{"protocol", "grpc"}),
		f.enqueue("task", selector(`{"gpu": "true"}`), option{"protocol", "exec"}),
	}
	for id, where := range wants {
		f.awaitStatus(id, "completed")
		require.True(t, where.ran(id), "task %d ran elsewhere", id)
	}
	for _, id := range anyone {
		f.awaitStatus(id, "completed")
	}
	fleettest.Throughout(t, time.Second, func() bool {
		return one[int](f, "SELECT count(*)::int FROM sched.task WHERE id = any($1) AND status = 'available' AND attempt = 0", nobody) == len(nobody)
	}, func() string { return "somebody took a task whose selector doesn't match: " + f.dump() })
}

// A task that nobody can run waits, is named with the pair that is missing, is
// counted, and goes to a worker that joins later.
func TestTaskThatNobodyCanRunIsNamed(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	leader := f.startLeader()
	f.start(newApp(t, nil), fleettest.Settings{fleettest.SetLabels: "zone=cn-north"})
	id := f.enqueue("task", queue("lonely"), selector(`{"zone": "cn-north", "gpu": "h100"}`))
	name := one[string](f, "SELECT queue FROM sched.task WHERE id = $1", id)
	f.awaitTrue(fleettest.Soon, "not named", "SELECT unroutable LIKE '%gpu%h100%' AND unroutable NOT LIKE '%cn-north%' FROM sched.queue WHERE name = $1", name)
	require.Equal(t, "available", f.status(id))

	named := one[string](f, "SELECT unroutable FROM sched.queue WHERE name = $1", name)
	require.Contains(t, f.sched("queues", "list", "lonely"), named)
	require.NotContains(t, named, "cn-north", "the pair that a worker satisfies is none of the trouble")
	explained := f.sched("explain", fmt.Sprint(id))
	require.Contains(t, explained, "h100")
	fleettest.Eventually(t, fleettest.Soon, func() bool { return leader.Metric(t, metricUnroutable) > 0 },
		func() string { return "no metric counts it" })
	f.awaitTrue(fleettest.Soon, "no decision", "SELECT EXISTS (SELECT FROM sched.decision WHERE what = 'unroutable' AND subject = $1 AND reason LIKE '%h100%')", name)

	joined := newApp(t, nil)
	f.start(joined, fleettest.Settings{fleettest.SetLabels: "zone=cn-north,gpu=h100"})
	f.awaitStatus(id, "completed")
	require.True(t, joined.ran(id))
	f.awaitTrue(fleettest.Soon, "still named", "SELECT unroutable IS NULL FROM sched.queue WHERE name = $1", name)
	fleettest.Eventually(t, fleettest.Soon, func() bool { return leader.Metric(t, metricUnroutable) == 0 },
		func() string { return "still counted" })
	require.NotContains(t, f.sched("explain", fmt.Sprint(id)), "no live worker")
}

// Each kind of label under each selector: a hundred of them.
func TestAHundredSelectors(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.startLeader()
	const each = 50
	var apps []*app
	ids := make(map[int64]int)
	for side := range 2 {
		var labels []string
		for n := range each {
			labels = append(labels, fmt.Sprintf("cap-%d=yes", side*each+n))
		}
		a := newApp(t, nil)
		apps = append(apps, a)
		f.start(a, fleettest.Settings{fleettest.SetLabels: strings.Join(labels, ",")})
	}
	for n := range 2 * each {
		ids[f.enqueue("task", selectorOf(fmt.Sprintf("cap-%d", n), "yes"))] = n / each
	}
	f.awaitDrained("task", time.Minute)
	for id, side := range ids {
		require.True(t, apps[side].ran(id))
		require.False(t, apps[1-side].ran(id))
	}
	f.awaitTrue(fleettest.Soon, "not one assignment a queue",
		"SELECT count(*) = 100 AND count(DISTINCT queue) = 100 FROM sched.assignment WHERE queue LIKE 'default|%'")
}

// Ten thousand queues: all are served, and the leader keeps up.
func TestTenThousandQueues(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	const queues = 10000
	a := newApp(t, nil)
	f.start(a, nil)
	f.start(a, nil)
	f.awaitLed()
	ids := list[int64](f, `SELECT sched.enqueue_many((SELECT jsonb_agg(jsonb_build_object('kind', 'one', 'queue', 'q' || n)) FROM generate_series(1, $1::int) AS n))`, queues)
	require.Len(t, ids, queues)
	f.awaitDrained("one", 2*time.Minute)
	require.Equal(t, queues, a.count("one"), "each once")
	const keepsUp = "SELECT computed_at > clock_timestamp() - interval '20 seconds' FROM sched.fleet"
	f.awaitTrue(fleettest.Soon, "the leader doesn't keep up", keepsUp)

	// With all those queues there, a task starts at once, and the leader's turns go on.
	for n := range 5 {
		f.awaitStatus(f.enqueue("late", queue(fmt.Sprintf("q%d", queues-n*1000))), "completed")
	}
	f.awaitStatus(f.enqueue("late", queue("quite-new")), "completed")
	for range 3 {
		turn := one[time.Time](f, "SELECT computed_at FROM sched.fleet")
		f.awaitTrue(20*time.Second, "the leader's turns don't go on", "SELECT computed_at > $1 FROM sched.fleet", turn)
	}
	require.True(t, one[bool](f, keepsUp), "the leader doesn't keep up")
	require.Contains(t, f.sched("queues", "list", "q9999"), "q9999")
}
