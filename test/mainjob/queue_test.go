package mainjob_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// River UI pauses a queue by its row in river_queue.
func TestPausedQueueIsLeftAlone(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := newApp(t, nil)
	f.start(a, nil)
	awaitStatus(t, f.db, enqueue(t, f.db, "first", with("queue", "pausable")), "completed", soon)

	_, err := f.db.Exec(t.Context(), `
		INSERT INTO sched.river_queue (name, metadata, created_at, updated_at, paused_at) VALUES ('pausable', '{}', now(), now(), now())
		ON CONFLICT (name) DO UPDATE SET paused_at = now(), updated_at = now()`)
	require.NoError(t, err)
	// A sidecar may take a moment to hear of it.
	eventually(t, soon, func() bool {
		probe := enqueue(t, f.db, "probe", with("queue", "pausable"))
		awaitStatus(t, f.db, enqueue(t, f.db, "other", with("queue", "other")), "completed", soon)
		return readTask(t, f.db, probe).Status == "available"
	}, func() string { return "the pause has no effect" })

	waiting := enqueue(t, f.db, "waiting", with("queue", "pausable"))
	throughout(t, 2*time.Second, func() bool { return readTask(t, f.db, waiting).Status == "available" },
		func() string { return "ran in spite of the pause: " + readTask(t, f.db, waiting).String() })
	awaitStatus(t, f.db, enqueue(t, f.db, "other", with("queue", "other")), "completed", soon)

	_, err = f.db.Exec(t.Context(), "UPDATE sched.river_queue SET paused_at = NULL, updated_at = now() WHERE name = 'pausable'")
	require.NoError(t, err)
	awaitStatus(t, f.db, waiting, "completed", soon)
}

// A sidecar runs whatever kind comes; nobody registers kinds.
func TestAnyKindRuns(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := newApp(t, nil)
	f.start(a, nil)
	kinds := []string{"a", "Invoice.Send", "invoice_send", "mail-out", "ns/name", "list[int]", "v1:job+fast", "x<y>", "_private", "2fa"}
	for i, kind := range kinds {
		id := enqueue(t, f.db, kind, with("args", fmt.Sprintf(`{"i": %d}`, i)), with("queue", fmt.Sprintf("queue_%d", i)))
		awaitStatus(t, f.db, id, "completed", soon)
		c := a.callsOf(id)[0]
		require.Equal(t, kind, c.kind, "the path that the app sees")
		require.JSONEq(t, fmt.Sprintf(`{"i": %d}`, i), string(c.args))
	}
}

func TestConfigurationNarrowsWhatASidecarClaims(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	byKind, byQueue := newApp(t, nil), newApp(t, nil)
	f.start(byKind, settings{setKinds: "mail,invoice"})
	f.start(byQueue, settings{setQueues: "reports"})

	mail, invoice := enqueue(t, f.db, "mail"), enqueue(t, f.db, "invoice", with("queue", "money"))
	report := enqueue(t, f.db, "report", with("queue", "reports"))
	nobodys := enqueue(t, f.db, "report", with("queue", "elsewhere"))
	for _, id := range []int64{mail, invoice, report} {
		awaitStatus(t, f.db, id, "completed", soon)
	}
	require.Len(t, byKind.callsOf(0), 2)
	require.Len(t, byQueue.callsOf(report), 1)
	throughout(t, time.Second, func() bool { return readTask(t, f.db, nobodys).Status == "available" },
		func() string { return readTask(t, f.db, nobodys).String() })
}

// Only a sidecar whose labels contain every pair of the selector, and whose app
// speaks the protocol, gets a task.
func TestSelectorAndProtocolNarrowWhoClaims(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	plain, labelled := newApp(t, nil), newApp(t, nil)
	f.start(plain, nil)
	zone, gpu := enqueue(t, f.db, "task", with("selector", `{"zone": "a"}`)), enqueue(t, f.db, "task", with("selector", `{"zone": "a", "gpu": "yes"}`))
	grpc := enqueue(t, f.db, "task", with("protocol", "grpc"))
	http := enqueue(t, f.db, "task", with("protocol", "http"))
	awaitStatus(t, f.db, http, "completed", soon)
	throughout(t, time.Second, func() bool { return countTasks(t, f.db, "status = 'available'") == 3 },
		func() string { return "claimed by a sidecar without the labels" })

	f.start(labelled, settings{setLabels: "zone=a,rack=7"})
	awaitStatus(t, f.db, zone, "completed", soon)
	require.Len(t, labelled.callsOf(zone), 1)
	throughout(t, time.Second, func() bool { return countTasks(t, f.db, "status = 'available'") == 2 },
		func() string { return "claimed with some of the labels only" })
	for _, id := range []int64{gpu, grpc} {
		require.Equal(t, "available", readTask(t, f.db, id).Status)
	}
}

// Within a queue, priority 1 starts first, and among equals whoever came first.
func TestPriorityDecidesWhoIsNext(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	hold := newGate(t)
	a := newApp(t, func(c *call) answer {
		if c.kind == "blocks" {
			hold.pass(c)
		}
		return answer{status: 200}
	})
	f.start(a, settings{setSlots: "1"})
	blocking := enqueue(t, f.db, "blocks")
	a.await(t, blocking, 1, soon)
	var ids [5][]int64
	for _, priority := range []int{4, 2, 3, 1} {
		for range 3 {
			ids[priority] = append(ids[priority], enqueue(t, f.db, "waits", with("priority", priority)))
		}
	}
	hold.open()
	awaitDrained(t, f.db, "waits", soon)
	var order []int64
	for _, c := range a.callsOf(0) {
		order = append(order, c.id)
	}
	require.Equal(t, slices.Concat([]int64{blocking}, ids[1], ids[2], ids[3], ids[4]), order)
}
