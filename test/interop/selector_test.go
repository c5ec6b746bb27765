package interop_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/config"
	"github.com/sched-sidecar/sched/internal/pgtest"
)

// selecting is how a River client demands labels of the worker: the queue's name
// from sched.queue_name, and the selector it was made from in the metadata.
func (b *bundle) selecting(t *testing.T, base, selector, protocol string) *river.InsertOpts {
	t.Helper()
	queue := scalar[string](t, b.pool, `SELECT sched.queue_name($1, $2::jsonb, $3)`, base, selector, protocol)
	metadata := fmt.Sprintf(`{"sched:selector": %s, "sched:protocol": %q}`, selector, protocol)
	return &river.InsertOpts{Queue: queue, Metadata: []byte(metadata)}
}

func TestInsert_Selector(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *config.Sidecar) { c.Labels = map[string]string{"gpu": "a100", "zone": "eu"} })

	here := b.insert(t, job{"", "train"}, b.selecting(t, "default", `{"gpu": "a100"}`, "any"))
	http := b.insert(t, job{"", "train"}, b.selecting(t, "default", `{"gpu": "a100"}`, "http"))
	elsewhere := b.insert(t, job{"", "train"}, b.selecting(t, "default", `{"gpu": "h100"}`, "any"))
	grpc := b.insert(t, job{"", "train"}, b.selecting(t, "default", `{}`, "grpc"))
	bySQL := b.enqueue(t, `'train', selector => '{"gpu": "a100"}'`)
	require.Equal(t, here.Queue, scalar[string](t, b.pool, `SELECT queue FROM sched.task WHERE id = $1`, bySQL), "SQL takes the same queue")

	b.wait(t, here.ID, "completed")
	b.wait(t, http.ID, "completed")
	b.wait(t, bySQL, "completed")
	require.Equal(t, "default", b.app.await(t, here.ID, 1).header.Get("Sched-Queue"))
	require.Equal(t, "available", b.status(t, elsewhere.ID))
	require.Equal(t, "available", b.status(t, grpc.ID))

	fitting := newApp(t)
	startSidecar(t, b.pool, fitting, func(c *config.Sidecar) { c.Labels = map[string]string{"gpu": "h100"} })
	b.wait(t, elsewhere.ID, "completed")
	require.Len(t, fitting.callsOf(elsewhere.ID), 1)
	require.Equal(t, "available", b.status(t, grpc.ID))
}

// River's client may insert into a queue that SQL never heard of. The leader finds
// it by its tasks.
func TestInsert_NewQueueIsFound(t *testing.T) {
	t.Parallel()
	b := &bundle{pool: pgtest.New(t), app: newApp(t)}
	b.river = insertOnly(t, b.pool)
	startSidecar(t, b.pool, b.app)
	eventually(t, func() bool { return leaderOf(t, b) != "" }, "the sidecar should be elected")
	require.Zero(t, scalar[int](t, b.pool, `SELECT count(*) FROM sched.queue`))

	row := b.insert(t, job{"", "first"}, &river.InsertOpts{Queue: "brand-new"})
	b.wait(t, row.ID, "completed")

	waited := scalar[float64](t, b.pool, `SELECT extract(epoch FROM start_time - created_at) FROM sched.task WHERE id = $1`, row.ID)
	require.Less(t, waited, 15.0, "the leader looks each second, sidecars every two")
	queue, err := b.river.QueueGet(t.Context(), "brand-new")
	require.NoError(t, err, "River's row of the queue is there too, so that it can be paused")
	require.Nil(t, queue.PausedAt)
	next := b.insert(t, job{"", "second"}, &river.InsertOpts{Queue: "brand-new"})
	b.wait(t, next.ID, "completed")
	require.Less(t, scalar[time.Duration](t, b.pool, `SELECT start_time - created_at FROM sched.task WHERE id = $1`, next.ID), 15*time.Second)
}

// Names that SQL allows and River's client doesn't: documented, and what the
// error is.
func TestInsert_QueueNameTooLongForRiver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	long := strings.Repeat("q", 65)
	bySQL := b.enqueue(t, `'greet', queue => '`+long+`'`)
	b.wait(t, bySQL, "completed")

	_, err := b.river.Insert(t.Context(), job{"", "greet"}, &river.InsertOpts{Queue: long})
	require.ErrorContains(t, err, "64 characters")
	require.NoError(t, b.river.QueuePause(t.Context(), long, nil), "listing and pausing it works")
	again := b.enqueue(t, `'greet', queue => '`+long+`'`)
	b.wait(t, b.insert(t, job{"", "greet"}, nil).ID, "completed")
	require.Equal(t, "available", b.status(t, again))
}
