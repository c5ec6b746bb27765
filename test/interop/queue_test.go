package interop_test

import (
	"testing"

	"github.com/riverqueue/river"
	"github.com/stretchr/testify/require"
)

func TestQueuePauseAndResume(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.wait(t, b.enqueue(t, `'greet', queue => 'mail'`), "completed")
	handle, release := holding(t)
	b.app.on("long", handle)
	running := b.enqueue(t, `'long', queue => 'mail'`)
	b.app.await(t, running, 1)

	require.NoError(t, b.river.QueuePause(t.Context(), "mail", nil))
	paused, err := b.river.QueueGet(t.Context(), "mail")
	require.NoError(t, err)
	require.NotNil(t, paused.PausedAt)
	waiting := b.enqueue(t, `'greet', queue => 'mail'`)
	byRiver := b.insert(t, job{"", "greet"}, &river.InsertOpts{Queue: "mail"})
	b.wait(t, b.enqueue(t, `'greet'`), "completed") // other queues go on
	require.Equal(t, "available", b.status(t, waiting))
	require.Equal(t, "available", b.status(t, byRiver.ID))
	release()
	b.wait(t, running, "completed")

	require.NoError(t, b.river.QueueResume(t.Context(), "mail", nil))
	b.wait(t, waiting, "completed")
	b.wait(t, byRiver.ID, "completed")
}

func TestQueuePause_All(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.wait(t, b.enqueue(t, `'greet', queue => 'mail'`), "completed")

	require.NoError(t, b.river.QueuePause(t.Context(), "*", nil))
	waiting := []int64{b.enqueue(t, `'greet'`), b.enqueue(t, `'greet', queue => 'mail'`)}
	require.NoError(t, b.river.QueueResume(t.Context(), "mail", nil))
	b.wait(t, waiting[1], "completed")
	require.Equal(t, "available", b.status(t, waiting[0]))
	require.NoError(t, b.river.QueueResume(t.Context(), "*", nil))
	b.wait(t, waiting[0], "completed")
}

func TestQueueListAndUpdate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.enqueue(t, `'greet', queue => 'mail'`)
	b.enqueue(t, `'greet', selector => '{"gpu": "a100"}'`)

	result, err := b.river.QueueList(t.Context(), river.NewQueueListParams())
	require.NoError(t, err)
	var names []string
	for _, queue := range result.Queues {
		names = append(names, queue.Name)
	}
	require.ElementsMatch(t, []string{"default", "mail", scalar[string](t, b.pool, `SELECT sched.queue_name('default', '{"gpu": "a100"}', 'any')`)}, names)

	queue, err := b.river.QueueUpdate(t.Context(), "mail", &river.QueueUpdateParams{Metadata: []byte(`{"team": "post"}`)})
	require.NoError(t, err)
	require.JSONEq(t, `{"team": "post"}`, string(queue.Metadata))
	b.wait(t, b.enqueue(t, `'greet', queue => 'mail'`), "completed")
}
