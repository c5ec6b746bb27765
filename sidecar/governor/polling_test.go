package governor_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/routing"
	"github.com/sched-sidecar/sched/sidecar/dispatch"
	"github.com/sched-sidecar/sched/sidecar/governor"
)

// metric reads a counter or gauge without labels, or with the one given.
func metric(t *testing.T, cfg governor.Config, name string, label ...string) float64 {
	t.Helper()
	families, err := cfg.Registerer.(*prometheus.Registry).Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			if len(label) == 0 || m.GetLabel()[0].GetValue() == label[0] {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	require.FailNow(t, "no metric "+name)
	return 0
}

func worker[T any](t *testing.T, pool *pgxpool.Pool, id, expression string) T {
	t.Helper()
	var value T
	require.NoError(t, pool.QueryRow(t.Context(), "select "+expression+" from sched.worker where id = $1", id).Scan(&value))
	return value
}

// patient is a configuration in which nothing happens by itself for a long time:
// what happens has been caused.
func patient(pool *pgxpool.Pool, d dispatch.Dispatcher) governor.Config {
	cfg := config(pool, d)
	cfg.PollInterval = time.Hour
	cfg.HeartbeatInterval, cfg.FenceAfter, cfg.EvictAfter = time.Hour, 2*time.Hour, 3*time.Hour
	return cfg
}

// startPatient starts it, lets nothing but news change its policy, and waits until
// it serves the queue "default".
func startPatient(t *testing.T, pool *pgxpool.Pool, cfg governor.Config) *governor.Governor {
	t.Helper()
	_, err := pool.Exec(t.Context(), `select sched.add_queue('default', 'default', '{}', 'any')`)
	require.NoError(t, err)
	g, err := governor.New(cfg)
	require.NoError(t, err)
	g.PolicyEvery(time.Hour)
	require.NoError(t, g.Start(t.Context()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_ = g.Stop(ctx, patience)
	})
	eventually(t, func() bool { return g.Status().Listening && len(g.Status().Queues) > 0 }, "it listens and serves")
	return g
}

// atRest waits until a number has stayed the same for a while, and returns it.
func atRest(t *testing.T, read func() float64) (value float64) {
	t.Helper()
	since := time.Now()
	eventually(t, func() bool {
		if now := read(); now != value {
			value, since = now, time.Now()
		}
		return time.Since(since) > 3*time.Second
	}, "it comes to rest")
	return value
}

func notify(t *testing.T, pool *pgxpool.Pool, channel, payload string) {
	t.Helper()
	_, err := pool.Exec(t.Context(), `select pg_notify($1, $2)`, channel, payload)
	require.NoError(t, err)
}

// TestWakeupsOfOthersAreIgnored: a notification that names another worker costs no
// query; one that names this worker, or nobody, costs one.
func TestWakeupsOfOthersAreIgnored(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	cfg := patient(pool, &dispatcherFunc{work: complete})
	g := startPatient(t, pool, cfg)
	// What a first turn of the leader changes makes it look once more.
	eventually(t, func() bool {
		var woken bool
		require.NoError(t, pool.QueryRow(t.Context(), `select wake is not null from sched.queue where name = 'default'`).Scan(&woken))
		return woken && g.Status().Leading
	}, "it leads and chose whom to wake")
	claims := atRest(t, func() float64 { return metric(t, cfg, "sched_claims_total") })
	for range 20 {
		notify(t, pool, "sched.river_insert", `{"queue": "default", "worker": "w-another"}`)
	}
	eventually(t, func() bool { return metric(t, cfg, "sched_wakeups_total", "foreign") == 20 }, "all were heard")
	require.InDelta(t, claims, metric(t, cfg, "sched_claims_total"), 0, "and none answered")

	notify(t, pool, "sched.river_insert", `{"queue": "default", "worker": "`+g.Status().WorkerID+`"}`)
	eventually(t, func() bool { return metric(t, cfg, "sched_claims_total") == claims+1 }, "its own")
	notify(t, pool, "sched.river_insert", `{"queue": "default"}`)
	eventually(t, func() bool { return metric(t, cfg, "sched_claims_total") == claims+2 }, "everybody's")
}

// TestNewsOfThePolicy: what changed is obeyed at once, not at the next reading.
func TestNewsOfThePolicy(t *testing.T) {
	t.Parallel()
	for _, channel := range []string{"sched.topology", "sched.config"} {
		t.Run(channel, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			g := startPatient(t, pool, patient(pool, &dispatcherFunc{work: complete}))
			_, err := pool.Exec(t.Context(), `insert into sched.queue (name, base) values ('new', 'new')`)
			require.NoError(t, err)
			notify(t, pool, channel, "")
			eventually(t, func() bool { return len(g.Status().Queues) == 2 }, "the new queue is served")
		})
	}
	t.Run("a task of an unknown queue", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		startPatient(t, pool, patient(pool, &dispatcherFunc{work: complete}))
		id := enqueue(t, pool, "'k', queue => 'new'")
		eventuallyState(t, pool, id, "completed")
	})
}

// TestBusyWorkerPolls: while it claims much it looks by itself, and says so first;
// it stops only after it has said that it will.
func TestBusyWorkerPolls(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	cfg := patient(pool, &dispatcherFunc{work: complete})
	g := startPatient(t, pool, cfg)
	id := g.Status().WorkerID
	_, err := pool.Exec(t.Context(), `update sched.setting set value = 'false' where key = 'notify'`)
	require.NoError(t, err)

	// A burst makes it busy; from then on single tasks are found without any wake-up.
	_, err = pool.Exec(t.Context(), `select sched.enqueue_many((select jsonb_agg(jsonb_build_object('kind', 'k')) from generate_series(1, 300)))`)
	require.NoError(t, err)
	notify(t, pool, "sched.river_insert", `{"queue": "default"}`)
	eventually(t, func() bool { return metric(t, cfg, "sched_polls_total") > 0 }, "it polls")
	stop, fed := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(fed)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := pool.Exec(context.WithoutCancel(t.Context()), `select sched.enqueue('k')`); err != nil {
				fed <- err
				return
			}
		}
	}()
	eventually(t, func() bool { return worker[bool](t, pool, id, "polling") }, "it says so")
	close(stop)
	require.NoError(t, <-fed)
	eventually(t, func() bool {
		var left int
		require.NoError(t, pool.QueryRow(t.Context(), `select count(*) from sched.river_job where state <> 'completed'`).Scan(&left))
		return left == 0
	}, "nothing is left behind")

	// It goes on for those who don't know yet: this one comes with the word that it stops.
	var last int64
	eventually(t, func() bool {
		require.NoError(t, pool.QueryRow(t.Context(), `select coalesce((select sched.enqueue('k') from sched.worker where id = $1 and not polling), 0)`, id).Scan(&last))
		return last != 0
	}, "it says that it stops")
	eventuallyState(t, pool, last, "completed")
	polls := -1.0
	eventually(t, func() bool {
		before := polls
		polls = metric(t, cfg, "sched_polls_total")
		return before == polls && metric(t, cfg, "sched_queues_busy") == 0
	}, "it stops")
}

// TestNoPollsWhileHeld: a hold ends them although the queue is busy, and the row
// says so.
func TestNoPollsWhileHeld(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	cfg := patient(pool, &dispatcherFunc{work: complete})
	g := startPatient(t, pool, cfg)
	id := g.Status().WorkerID
	eventually(t, func() bool {
		_, err := pool.Exec(t.Context(), `select sched.enqueue_many((select jsonb_agg(jsonb_build_object('kind', 'k')) from generate_series(1, 100)))`)
		require.NoError(t, err)
		return worker[bool](t, pool, id, "polling")
	}, "it polls")
	g.Hold("test")
	eventually(t, func() bool { return worker[bool](t, pool, id, "not polling and holds = '{test}'") }, "the row says so")
	polls := metric(t, cfg, "sched_polls_total")
	require.Never(t, func() bool { return metric(t, cfg, "sched_polls_total") != polls }, 200*time.Millisecond, 20*time.Millisecond)
}

// TestFullWorkerMissesNothing: nobody wakes a worker that is full, so it looks by
// itself once it no longer is.
func TestFullWorkerMissesNothing(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	b := newBlocker()
	cfg := patient(pool, &dispatcherFunc{work: b.work})
	cfg.Slots, cfg.Ceiling = 1, 1
	g := startPatient(t, pool, cfg)
	enqueue(t, pool, "'first'")
	b.next(t)
	eventually(t, func() bool { return worker[bool](t, pool, g.Status().WorkerID, "running = 1 and slots = 1") }, "the row says that it is full")
	// Nobody is told of the next one.
	_, err := pool.Exec(t.Context(), `update sched.setting set value = 'false' where key = 'notify'`)
	require.NoError(t, err)
	b.release <- jobs.Outcome{Kind: jobs.OutcomeComplete}
	id := enqueue(t, pool, "'second'")
	require.Equal(t, id, b.next(t).ID, "it looks")
	b.release <- jobs.Outcome{Kind: jobs.OutcomeComplete}
	eventuallyState(t, pool, id, "completed")
}

// TestLoadIsPublished: between heartbeats, too, and zero in the end.
func TestLoadIsPublished(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	b := newBlocker()
	cfg := patient(pool, &dispatcherFunc{work: b.work})
	cfg.Slots, cfg.Ceiling = 10, 10
	cfg.Load = func() governor.Usage {
		return governor.Usage{CPU: 0.25, Mem: 0.5, App: routing.AppLoad{CPU: 0.25, Mem: 0.5}}
	}
	g := startPatient(t, pool, cfg)
	id := g.Status().WorkerID
	seq := worker[int64](t, pool, id, "heartbeat_seq")
	for range 3 {
		enqueue(t, pool, "'k'")
	}
	for range 3 {
		b.next(t)
	}
	eventually(t, func() bool { return worker[int](t, pool, id, "running") == 3 }, "what runs")
	require.True(t, worker[bool](t, pool, id, "load_at is not null and cpu = 0.25 and mem = 0.5 and load_percent = 50 and ceiling = 10"))
	require.NoError(t, g.SetSlots(8))
	eventually(t, func() bool { return worker[int](t, pool, id, "slots") == 8 }, "slots")
	require.Equal(t, seq, worker[int64](t, pool, id, "heartbeat_seq"), "by no heartbeat")
	for range 3 {
		b.release <- jobs.Outcome{Kind: jobs.OutcomeComplete}
	}
	eventually(t, func() bool { return g.Status().Running == 0 }, "all end")
	require.NoError(t, g.Stop(t.Context(), patience))
	require.Equal(t, "done", worker[string](t, pool, id, "state"))
	require.True(t, worker[bool](t, pool, id, "running = 0 and not polling"))
}

// TestPolicyIsReadOnNewsAlone: heartbeats say whether there is anything new; without
// news nothing is read.
func TestPolicyIsReadOnNewsAlone(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	cfg := patient(pool, &dispatcherFunc{work: complete})
	cfg.HeartbeatInterval = 20 * time.Millisecond
	g := startPatient(t, pool, cfg)
	reads := func() float64 { return metric(t, cfg, "sched_policy_reads_total") }
	beats := func() int64 { return worker[int64](t, pool, g.Status().WorkerID, "heartbeat_seq") }
	// atRest waits until nothing is read for many heartbeats: this worker leads, and what it changes is news, too.
	atRest := func() (read float64) {
		eventually(t, func() bool {
			read = reads()
			first := beats()
			eventually(t, func() bool { return beats() > first+20 }, "time passes")
			return reads() == read
		}, "nothing is read in vain")
		return read
	}
	read := atRest()
	exec(t, pool, `update sched.fleet set policy_version = policy_version + 1`)
	eventually(t, func() bool { return reads() > read }, "it is read")
	atRest()
}

// TestOverloadedAppGetsNothing: three heartbeats above 85 % end the claims, not the
// work; they go on when the load is down.
func TestOverloadedAppGetsNothing(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	b := newBlocker()
	cfg := config(pool, &dispatcherFunc{work: b.work})
	var percent atomic.Int64
	cfg.Load = func() governor.Usage {
		return governor.Usage{App: routing.AppLoad{Reported: true, Report: float64(percent.Load())}}
	}
	g := start(t, cfg)
	first := enqueue(t, pool, "'k'")
	b.next(t)
	held := func() bool { return slices.Contains(g.Status().Holds, "overloaded") }

	percent.Store(85)
	beats := worker[int64](t, pool, g.Status().WorkerID, "heartbeat_seq")
	eventually(t, func() bool { return worker[int64](t, pool, g.Status().WorkerID, "heartbeat_seq") > beats+5 }, "time passes")
	require.False(t, held(), "not above 85 %")
	percent.Store(86)
	eventually(t, held, "it claims nothing")
	second := enqueue(t, pool, "'k'")
	b.release <- jobs.Outcome{Kind: jobs.OutcomeComplete}
	eventuallyState(t, pool, first, "completed")
	require.Never(t, func() bool { return state(t, pool, second) != "available" }, 300*time.Millisecond, 20*time.Millisecond)

	percent.Store(60)
	require.Equal(t, second, b.next(t).ID)
	require.False(t, held())
	b.release <- jobs.Outcome{Kind: jobs.OutcomeComplete}
	eventuallyState(t, pool, second, "completed")
}

// TestFleetOfIdleWorkers: one enqueue makes few of them look.
func TestFleetOfIdleWorkers(t *testing.T) {
	t.Parallel()
	const workers = 20
	pool := pgtest.New(t)
	cfgs := make([]governor.Config, workers)
	for i := range cfgs {
		cfgs[i] = patient(pool, &dispatcherFunc{work: complete})
		startPatient(t, pool, cfgs[i])
	}
	claims := func() (sum float64) {
		for _, cfg := range cfgs {
			sum += metric(t, cfg, "sched_claims_total")
		}
		return sum
	}
	assigned := func() (n int) {
		require.NoError(t, pool.QueryRow(t.Context(), `select coalesce(cardinality(wake), 0) from sched.queue where name = 'default'`).Scan(&n))
		return n
	}
	eventually(t, func() bool { return assigned() == 16 }, "a leader chose whom to wake")
	before := atRest(t, claims)
	const tasks = 10
	for range tasks {
		id := enqueue(t, pool, "'k'")
		eventuallyState(t, pool, id, "completed")
	}
	require.LessOrEqual(t, claims()-before, 3.0*tasks)
}
