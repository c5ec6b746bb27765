package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/devpg"
	"github.com/sched-sidecar/sched/internal/pgtest"
)

// stage is a server of the test's own with an app that completes everything.
type stage struct {
	server *devpg.Server
	db     *pgxpool.Pool
	app    *app
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{server: pgtest.Server(t), app: newApp(t, nil)}
	migrateUp(t, s.server.DSN())
	s.db = open(t, s.server.DSN())
	return s
}

// enqueueAnyway enqueues a task on new connections until one takes it.
func (s *stage) enqueueAnyway(t *testing.T, call string) int64 {
	t.Helper()
	var id int64
	var err error
	eventually(t, soon, func() bool {
		var conn *pgx.Conn
		if conn, err = pgx.Connect(t.Context(), s.server.DSN()); err != nil {
			return false
		}
		defer conn.Close(t.Context())
		err = conn.QueryRow(t.Context(), "SELECT sched."+call).Scan(&id)
		return err == nil
	}, func() string { return fmt.Sprintf("can't enqueue: %v", err) })
	return id
}

// terminate ends the server processes behind all connections of sidecars.
func (s *stage) terminate(t *testing.T) int {
	t.Helper()
	return one[int](t, s.db, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'sched-sidecar'")
}

func TestTerminatedBackendsHeal(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	side := startSidecar(t, s.server.DSN(), s.app.url, nil)
	side.awaitMetric(t, "sched_listening", 1, soon)
	s.app.await(t, enqueue(t, s.db, "before"), 1, soon) // its queue is known from now on
	var longest, listening time.Duration
	for range 5 {
		require.Positive(t, s.terminate(t))
		since := time.Now()
		c := s.app.await(t, enqueue(t, s.db, "after"), 1, soon)
		longest = max(longest, c.began.Sub(since))
		side.awaitMetric(t, "sched_listening", 1, soon)
		listening = max(listening, time.Since(since))
	}
	t.Logf("after the end of all connections: next task within %s, listening within %s", longest, listening)
	require.Less(t, longest, healed)
	require.Less(t, listening, healed)
}

// Connections end in the middle of claims and settles. No lease is lost, so
// every task runs once.
func TestTerminatedBackendsLoseNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.app.handle = func(c *call) (int, string) {
		timer := time.NewTimer(5 * time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.ctx.Done():
		}
		return http.StatusNoContent, ""
	}
	load := func(n int) []int64 {
		return all[int64](t, s.db, `SELECT sched.enqueue_many((SELECT jsonb_agg('{"kind": "load"}'::jsonb) FROM generate_series(1, $1::int)))`, n)
	}
	ids := load(1000)
	// A fence would take the tasks back, and they would run twice.
	patient := settings{"SCHED_HEARTBEAT_INTERVAL": "500ms", "SCHED_FENCE_AFTER": "8s", "SCHED_EVICT_AFTER": "10s"}
	for range 2 {
		startSidecar(t, s.server.DSN(), s.app.url, patient.plus(settings{setSlots: "8"}))
	}
	ended := 0
	eventually(t, 2*time.Minute, func() bool {
		// Once in about 200 ms: time enough to be in the middle of something.
		if ended < 60 && rand.IntN(10) == 0 {
			ended += s.terminate(t)
		}
		left := one[int](t, s.db, "SELECT count(*) FROM sched.task WHERE status <> 'completed'")
		if left == 0 && ended <= 20 { // it was over before that could hurt it
			ids = append(ids, load(200)...)
			return false
		}
		return left == 0
	}, func() string { return fmt.Sprintf("not drained, with %d connections ended", ended) })
	t.Logf("%d connections were ended", ended)
	for _, id := range ids {
		require.Len(t, s.app.callsOf(id), 1)
	}
	require.Len(t, ids, one[int](t, s.db, "SELECT count(*) FROM sched.task WHERE attempt = 1"))
}

func TestRestartsOfPostgresHeal(t *testing.T) {
	t.Parallel()
	stops := map[string]func(*testing.T, *devpg.Server){
		"fast":      func(*testing.T, *devpg.Server) {}, // how Restart stops it
		"immediate": func(t *testing.T, s *devpg.Server) { require.NoError(t, syscall.Kill(s.Pid(), syscall.SIGQUIT)) },
		"crash":     func(t *testing.T, s *devpg.Server) { require.NoError(t, s.Kill()) },
	}
	for name, stop := range stops {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			sides := []*program{startSidecar(t, s.server.DSN(), s.app.url, nil), startSidecar(t, s.server.DSN(), s.app.url, nil)}
			eventually(t, leaderless, func() bool { return sides[0].metric(t, "sched_leading")+sides[1].metric(t, "sched_leading") == 1 },
				func() string { return "nobody leads" })
			var longest, listening, promoted, down time.Duration
			for range 3 {
				timed := one[int64](t, s.db, "SELECT sched.enqueue('timed', run_at => clock_timestamp() + interval '100 ms')")
				stopped := time.Now()
				stop(t, s.server)
				require.NoError(t, s.server.Restart(t.Context()))
				back := time.Now()
				down = max(down, back.Sub(stopped))
				c := s.app.await(t, s.enqueueAnyway(t, "enqueue('after')"), 1, soon)
				longest = max(longest, c.began.Sub(back))
				promoted = max(promoted, s.app.await(t, timed, 1, 2*leaderless).began.Sub(back))
				for _, side := range sides {
					side.awaitMetric(t, "sched_listening", 1, soon)
				}
				listening = max(listening, time.Since(back))
				s.db.Reset()
			}
			t.Logf("%s restart, at most %s long: next task within %s, a timed one within %s, listening within %s", name, down, longest, promoted, listening)
			require.Less(t, longest, healed)
			require.Less(t, promoted, leaderless+down, "the leader's lease may have run out")
			require.Less(t, listening, healed)
		})
	}
}

// An outage of many times evict_after: what the app answered meanwhile is kept
// and written when Postgres is back, since nobody was evicted for it.
func TestOutcomesOutliveAnOutage(t *testing.T) {
	t.Parallel()
	// The fence leaves even a busy machine the time to answer all of them.
	outcomesOutlive(t, settings{"SCHED_HEARTBEAT_INTERVAL": "500ms", "SCHED_FENCE_AFTER": "4s", "SCHED_EVICT_AFTER": "5s"}, 20*time.Second)
}

func outcomesOutlive(t *testing.T, set settings, length time.Duration) {
	t.Helper()
	s := newStage(t)
	release := make(chan struct{})
	s.app.handle = func(c *call) (int, string) {
		if c.kind == "answered" {
			select {
			case <-release:
			case <-c.ctx.Done():
			}
		}
		return http.StatusOK, `{"answered": "meanwhile"}`
	}
	side := startSidecar(t, s.server.DSN(), s.app.url, set.plus(settings{setSlots: "200"}))
	ids := all[int64](t, s.db, `SELECT sched.enqueue_many((SELECT jsonb_agg('{"kind": "answered"}'::jsonb) FROM generate_series(1, 200)))`)
	for _, id := range ids {
		s.app.await(t, id, 1, soon)
	}
	timed := one[int64](t, s.db, "SELECT sched.enqueue('timed', run_at => clock_timestamp() + interval '1 s')")

	require.NoError(t, s.server.Kill())
	close(release)
	over := time.NewTimer(length)
	defer over.Stop()
	eventually(t, 2*soon, func() bool { status, _ := side.get(t, "/readyz"); return status == http.StatusServiceUnavailable },
		func() string { return "a sidecar without Postgres is ready" })
	<-over.C
	require.NoError(t, s.server.Restart(t.Context()))
	back := time.Now()

	c := s.app.await(t, s.enqueueAnyway(t, "enqueue('after')"), 1, soon)
	s.db.Reset()
	eventually(t, soon, func() bool {
		return one[int](t, s.db, "SELECT count(*) FROM sched.task WHERE kind = 'answered' AND status = 'completed' AND output ->> 'answered' = 'meanwhile'") == len(ids)
	}, func() string { return "outcomes are missing" })
	written := time.Since(back)
	promoted := s.app.await(t, timed, 1, 4*leaderless).began.Sub(back)
	t.Logf("after an outage of %s: outcomes written within %s, next task within %s, a timed one within %s", length, written, c.began.Sub(back), promoted)
	require.Less(t, written, healed)
	require.Less(t, c.began.Sub(back), healed)
	require.Less(t, promoted, 2*healed)
	for _, id := range ids {
		require.Len(t, s.app.callsOf(id), 1, "an answer was thrown away")
	}
	require.Zero(t, one[int](t, s.db, "SELECT count(*) FROM sched.worker WHERE state = 'evicted'"))
}
