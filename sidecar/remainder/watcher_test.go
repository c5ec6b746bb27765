package remainder

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/routing"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// sidecar is one that says what the test wants.
type sidecar struct {
	running atomic.Int64
	skipped []string
}

func (s *sidecar) Running() int           { return int(s.running.Load()) }
func (s *sidecar) SkippedKinds() []string { return s.skipped }

func newWatcher(t *testing.T, pool *pgxpool.Pool, change func(*Config)) *Watcher {
	t.Helper()
	config := Config{
		DB: pool, Queues: routing.NewRegistry(pool), Sidecar: &sidecar{}, ClientID: "ours",
		Protocols: []string{"http"}, Logger: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&config)
	}
	w, err := New(config)
	require.NoError(t, err)
	return w
}

func requireEmpty(t *testing.T, w *Watcher, want bool, what string) {
	t.Helper()
	got, err := w.Empty(t.Context())
	require.NoError(t, err)
	require.Equal(t, want, got, what)
}

// task enqueues a task and gives its row a past.
func task(t *testing.T, pool *pgxpool.Pool, call, past string) int64 {
	t.Helper()
	var id int64
	require.NoError(t, pool.QueryRow(t.Context(), "select sched.enqueue("+call+")").Scan(&id))
	if past != "" {
		_, err := pool.Exec(t.Context(), "update sched.river_job set "+past+" where id = $1", id)
		require.NoError(t, err)
	}
	return id
}

func TestWhatIsWaitedFor(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, call, past string
		config           func(*Config)
		waits            bool
	}{
		{name: "waiting", call: "'a'", waits: true},
		{name: "running", call: "'a'", past: "state = 'running', attempt = 1, attempted_at = now(), attempted_by = '{elsewhere}'", waits: true},
		{name: "failed, retry in an hour", call: "'a'", past: "state = 'retryable', attempt = 1, attempted_at = now(), scheduled_at = now() + interval '1 hour'", waits: true},
		{name: "put off by the app", call: "'a'", past: "state = 'scheduled', attempted_at = now(), scheduled_at = now() + interval '1 hour'", waits: true},
		{name: "scheduled by somebody for later", call: "'a', run_at => now() + interval '1 hour'"},
		{name: "scheduled by somebody, and due", call: "'a', run_at => now() + interval '1 hour'", past: "scheduled_at = now() - interval '1 second'", waits: true},
		{name: "held back by a River client", call: "'a'", past: "state = 'pending'"},
		{name: "completed", call: "'a'", past: "state = 'completed', finalized_at = now()"},
		{name: "discarded", call: "'a'", past: "state = 'discarded', finalized_at = now()"},
		{name: "of a kind that is claimed", call: "'a'", config: func(c *Config) { c.Kinds = []string{"b", "a"} }, waits: true},
		{name: "of a kind that is not", call: "'a'", config: func(c *Config) { c.Kinds = []string{"b"} }},
		{name: "in a queue that is served", call: "'a', queue => 'mail'", config: func(c *Config) { c.Bases = []string{"mail"} }, waits: true},
		{name: "in a queue that is not", call: "'a', queue => 'post'", config: func(c *Config) { c.Bases = []string{"mail"} }},
		{name: "for our labels", call: `'a', selector => '{"gpu": "yes"}'`, config: func(c *Config) { c.Labels = map[string]string{"gpu": "yes", "zone": "a"} }, waits: true},
		{name: "for other labels", call: `'a', selector => '{"gpu": "yes"}'`},
		{name: "for our protocol", call: "'a', protocol => 'http'", waits: true},
		{name: "for another protocol", call: "'a', protocol => 'grpc'"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			w := newWatcher(t, pool, tt.config)
			requireEmpty(t, w, true, "a new database")
			task(t, pool, tt.call, tt.past)
			requireEmpty(t, w, !tt.waits, tt.name)
		})
	}
}

func TestPausedQueueIsWaitedFor(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	task(t, pool, "'a'", "")
	_, err := pool.Exec(t.Context(), "update sched.river_queue set paused_at = now() where name = 'default'")
	require.NoError(t, err)
	requireEmpty(t, newWatcher(t, pool, nil), false, "it can run once the queue is resumed")
}

func TestTaskInAQueueThatNobodyNoticed(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	task(t, pool, "'a', queue => 'mail'", "")
	_, err := pool.Exec(t.Context(), "delete from sched.queue where name = 'mail'")
	require.NoError(t, err)
	requireEmpty(t, newWatcher(t, pool, nil), false, "the queue is found")
}

func TestAwaitEmpty(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	id := task(t, pool, "'a'", "")
	ours := &sidecar{}
	ours.running.Store(1)
	w := newWatcher(t, pool, func(c *Config) { c.Sidecar = ours })
	done := make(chan error, 1)
	go func() { done <- w.AwaitEmpty(t.Context()) }()

	_, err := pool.Exec(t.Context(), "update sched.river_job set state = 'completed', finalized_at = now() where id = $1", id)
	require.NoError(t, err)
	select {
	case err := <-done:
		require.FailNow(t, "an attempt runs here whose outcome isn't written", "%v", err)
	case <-time.After(2 * lookInterval):
	}
	ours.running.Store(0)
	require.NoError(t, <-done)

	task(t, pool, "'a'", "")
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- w.AwaitEmpty(ctx) }()
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
}

func TestKindThatTheAppLacks(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	task(t, pool, "'tpyo'", "")
	task(t, pool, "'tpyo', queue => 'other'", "")
	w := newWatcher(t, pool, func(c *Config) { c.Bases = []string{"default"} })

	now := time.Now()
	w.lacking.observe([]string{"tpyo"}, now)
	requireEmpty(t, w, false, "one refusal may be the app's first moment")
	w.lacking.observe(nil, now.Add(time.Second))
	w.lacking.observe([]string{"tpyo"}, now.Add(3*time.Second))
	requireEmpty(t, w, true, "refused again")
	require.EqualError(t, w.Verdict(t.Context()),
		"not everything succeeded: left behind because the app answers 404 to their kind: 1 of tpyo; if another app has these kinds, narrow this run with --kinds")

	w.lacking.observe(nil, now.Add(time.Minute))
	requireEmpty(t, w, false, "found after all")
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	registry := routing.NewRegistry(pool)
	for id, client := range map[string]string{"w-old": "ours", "w-new": "ours", "w-other": "theirs"} {
		require.NoError(t, registry.Register(t.Context(), routing.Worker{ID: id, ClientID: client, Protocols: []string{"http"}, Ceiling: 1}))
	}
	w := newWatcher(t, pool, nil)
	ended := func(state, worker, errors string) int64 {
		return task(t, pool, "'job'", fmt.Sprintf(
			"state = '%s', finalized_at = now(), attempt = 1, attempted_at = now(), attempted_by = '{%s}', errors = %s", state, worker, errors))
	}
	const boom = `array[jsonb_build_object('error', E'boom\nat line 1')]`

	ended("completed", "w-new", boom)
	ended("discarded", "w-other", boom)
	task(t, pool, "'job'", "state = 'discarded', finalized_at = now() - interval '1 hour', attempted_by = '{w-old}'")
	byHand := ended("cancelled", "w-new", boom)
	_, err := pool.Exec(t.Context(), `update sched.river_job set metadata = metadata || '{"cancel_attempted_at": "2026-01-01"}' where id = $1`, byHand)
	require.NoError(t, err)
	require.NoError(t, w.Verdict(t.Context()), "none of these is a failure of this run")

	first := ended("discarded", "w-old", boom)
	want := fmt.Sprintf("not everything succeeded: task %d (job) was discarded: boom …", first)
	require.EqualError(t, w.Verdict(t.Context()), want)
	require.ErrorIs(t, w.Verdict(t.Context()), ErrFailed)

	second := ended("cancelled", "w-new", "null")
	require.EqualError(t, w.Verdict(t.Context()), fmt.Sprintf(
		"not everything succeeded: 2 tasks failed for good: task %d (job) was discarded: boom …; task %d (job) was cancelled: without an error text", first, second))
	for range failedShown {
		ended("discarded", "w-new", boom)
	}
	require.ErrorContains(t, w.Verdict(t.Context()), "12 tasks failed for good, the first 10: ")
}
