package interop_test

import (
	"testing"

	"github.com/riverqueue/river"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/config"
)

// A selector in the metadata of a task in a plain queue must not bind the queue.
func TestInsert_SelectorWithoutItsQueueBindsNobody(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *config.Sidecar) { c.Labels = map[string]string{"zone": "eu"} })
	odd := b.insert(t, job{"", "odd"}, &river.InsertOpts{Queue: "plain", Metadata: []byte(`{"sched:selector": {"gpu": "a100"}, "sched:protocol": "grpc"}`)})
	b.wait(t, odd.ID, "completed")
	b.wait(t, b.enqueue(t, `'greet', queue => 'plain'`), "completed")
	require.JSONEq(t, `{}`, scalar[string](t, b.pool, `SELECT selector::text FROM sched.queue WHERE name = 'plain'`))
}
