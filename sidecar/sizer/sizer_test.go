package sizer_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/routing"
	"github.com/sched-sidecar/sched/sidecar/governor"
	"github.com/sched-sidecar/sched/sidecar/load"
	"github.com/sched-sidecar/sched/sidecar/sizer"
	"github.com/sched-sidecar/sched/sql/dbq"
)

// fake is a governor whose app takes 50 ms for a task, and a store.
type fake struct {
	rate  float64
	slow  time.Duration // that a task takes, if not 50 ms
	slots int
	room  int // of the app; 0: any
	load  float64
	// unseen: nothing is known of the app's load.
	unseen bool
	holds  []string
	notes  []routing.Decision

	row     dbq.ElasticReadRow
	err     error
	written []dbq.WorkerElasticParams
}

func (f *fake) Tally() governor.Tally {
	slots := f.Status().Slots
	service := max(f.slow, 50*time.Millisecond)
	ended := int(min(f.rate, float64(slots)/service.Seconds()))
	running := float64(ended) * service.Seconds()
	return governor.Tally{Since: time.Second, Claimed: ended, Ended: ended, Held: time.Duration(ended) * service, Running: running, Peak: min(slots, int(running)+2)}
}

func (f *fake) Status() governor.Status {
	ceiling := 64
	if f.room > 0 {
		ceiling = min(ceiling, f.room)
	}
	return governor.Status{WorkerID: "w-1", Slots: min(f.slots, ceiling), Ceiling: ceiling, Holds: f.holds, Queues: []string{"default"}}
}

func (f *fake) SetSlots(n int) error {
	f.slots = n
	return nil
}

func (f *fake) Note(d routing.Decision) { f.notes = append(f.notes, d) }

func (f *fake) ElasticRead(context.Context, dbq.ElasticReadParams) (dbq.ElasticReadRow, error) {
	return f.row, f.err
}

func (f *fake) WorkerElastic(_ context.Context, row dbq.WorkerElasticParams) error {
	f.written = append(f.written, row)
	return nil
}

// wait has so much wait in the one queue, of which the worker has a share.
func (f *fake) wait(tasks int32, share float64) {
	f.row.Queues, f.row.Pending, f.row.Shares = []string{"default"}, []int32{tasks}, []float64{share}
}

func newSizer(f *fake, observe bool) (*sizer.Sizer, *prometheus.Registry) {
	registry := prometheus.NewRegistry()
	return sizer.New(sizer.Config{
		Governor: f, Store: f, Load: func() (load.Usage, bool) {
			return load.Usage{CPU: max(f.load, 0.2), Mem: max(f.load, 0.2), Cores: 2}, !f.unseen
		}, Observe: observe, AppDown: "app down",
		Logger: slog.New(slog.DiscardHandler), Registerer: registry,
	}), registry
}

// play steps once a second.
func play(t *testing.T, s *sizer.Sizer, seconds int) {
	t.Helper()
	for range seconds {
		<-time.After(time.Second)
		s.Step(t.Context())
	}
}

func TestSlotsFollowDemand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{rate: 200, slots: 4, row: dbq.ElasticReadRow{Settings: `{}`, AgeSeconds: 0.5}}
		s, registry := newSizer(f, false)
		f.wait(120, 1)
		play(t, s, 6)
		f.wait(0, 1)
		play(t, s, 4)
		require.GreaterOrEqual(t, f.slots, 16) // 10 and a reserve
		require.LessOrEqual(t, f.slots, 20)
		require.NotEmpty(t, f.notes)
		require.Equal(t, "slots", f.notes[0].What)
		require.Equal(t, "4", f.notes[0].From)
		require.Equal(t, "8", f.notes[0].To)
		require.NotEmpty(t, f.written)
		require.LessOrEqual(t, len(f.written), 10)
		n, err := testutil.GatherAndCount(registry, "sched_qps_prediction_error_ratio", "sched_elastic_score", "sched_elastic_reason")
		require.NoError(t, err)
		require.Equal(t, 1+4+8, n)

		f.rate = 10
		play(t, s, 60)
		require.Equal(t, 2, f.slots)

		// Settings hold from the next second on; such that don't fit change nothing.
		f.row.Settings = `{"elastic_min": 7}`
		play(t, s, 3)
		require.Equal(t, 7, f.slots)
		f.row.Settings = `{"elastic_min": 0}`
		play(t, s, 20)
		require.Equal(t, 7, f.slots)
	})
}

func TestObservingMovesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{rate: 200, slots: 64, row: dbq.ElasticReadRow{Settings: `{}`}}
		s, _ := newSizer(f, true)
		play(t, s, 40)
		require.Equal(t, 64, f.slots)
		last := f.notes[len(f.notes)-1]
		require.Equal(t, "slots observed", last.What)
		require.Less(t, last.To, "64")
	})
}

func TestNothingIsMovedByWhatIsOld(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*fake){
		"no leader":   func(f *fake) { f.row.AgeSeconds = 1e9 },
		"no Postgres": func(f *fake) { f.err = errors.New("away") },
		"app down":    func(f *fake) { f.holds = []string{"app down"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &fake{rate: 1000, slots: 8, row: dbq.ElasticReadRow{Settings: `{}`}}
				f.wait(1000, 1)
				s, _ := newSizer(f, false)
				change(f)
				play(t, s, 30)
				require.Equal(t, 8, f.slots)
				require.Len(t, f.notes, 1, "said once")
			})
		})
	}
}

// A load that was known and is no more isn't taken for none, until it has been away
// for as long as apps may be silent.
func TestLoadThatIsKnownNoMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{rate: 1000, slots: 8, load: 0.9, row: dbq.ElasticReadRow{Settings: `{}`}}
		f.wait(1000, 1)
		s, _ := newSizer(f, false)
		play(t, s, 5)
		before := f.slots
		require.LessOrEqual(t, before, 8, "no headroom")
		f.unseen = true
		play(t, s, 12)
		require.Equal(t, before, f.slots)
		play(t, s, 10)
		require.Greater(t, f.slots, before)
	})
}

// A worker that doesn't know what it needs asks for no more workers.
func TestNoScaleOutByWhatIsOld(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*fake){
		"no leader": func(f *fake) { f.row.AgeSeconds = 1e9 },
		"app down":  func(f *fake) { f.holds = []string{"app down"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &fake{rate: 1000, slots: 8, load: 0.9, row: dbq.ElasticReadRow{Settings: `{}`}}
				f.wait(1000, 1)
				s, registry := newSizer(f, false)
				play(t, s, 3)
				require.True(t, f.written[len(f.written)-1].ScaleOut)
				require.InDelta(t, 1, gauge(t, registry, "sched_elastic_scale_out"), 0)
				demand := f.written[len(f.written)-1].Demand
				change(f)
				play(t, s, 1)
				last := f.written[len(f.written)-1]
				require.False(t, last.ScaleOut)
				require.Equal(t, demand, last.Demand, "which is all that is known")
				require.InDelta(t, 0, gauge(t, registry, "sched_elastic_scale_out"), 0)
			})
		})
	}
}

// gauge is the value of one without labels.
func gauge(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no %s", name)
	return 0
}

// The end of traffic reaches the row.
func TestDemandOfNothingIsWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{rate: 2, slow: 5 * time.Second, slots: 64, row: dbq.ElasticReadRow{Settings: `{}`}}
		s, _ := newSizer(f, false)
		play(t, s, 5)
		require.InDelta(t, 10, f.written[len(f.written)-1].Demand.Float32, 0.01)
		f.rate = 0
		play(t, s, 20)
		require.Zero(t, f.written[len(f.written)-1].Demand.Float32)
		n := len(f.written)
		play(t, s, 10)
		require.Len(t, f.written, n, "once")
		f.rate, f.slots = 1, 64
		play(t, s, 1)
		require.Positive(t, f.written[len(f.written)-1].Demand.Float32)
	})
}

// An app that holds fewer tasks than the ceiling is one with that ceiling: nothing is
// decided again and again that can't come true.
func TestAppsRoomIsTheCeiling(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{rate: 1000, slots: 64, room: 8, row: dbq.ElasticReadRow{Settings: `{}`}}
		f.wait(1000, 1)
		s, _ := newSizer(f, false)
		play(t, s, 3)
		require.Empty(t, f.notes)
		require.Equal(t, 64, f.slots, "which hold again when the app holds more")
		f.room = 0
		play(t, s, 3)
		require.Equal(t, 64, f.slots)
	})
}

// A worker whose share of a backlog becomes another saw nothing arrive.
func TestAShareThatChangesIsNoArrival(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{rate: 100, slots: 64, row: dbq.ElasticReadRow{Settings: `{}`, Served: 1}}
		s, registry := newSizer(f, false)
		arrivals := func() float64 {
			play(t, s, 1)
			return gauge(t, registry, "sched_elastic_arrivals_per_second")
		}
		f.wait(1000, 0.1)
		require.InDelta(t, 100, arrivals(), 1e-9, "what was there before is nobody's arrival")
		f.wait(1000, 0.9)
		require.InDelta(t, 100, arrivals(), 1e-9)
		f.wait(1100, 0.5)
		require.InDelta(t, 150, arrivals(), 1e-9)
		f.row.Served = 2
		f.wait(5000, 0.5)
		require.InDelta(t, 100, arrivals(), 1e-9, "of other queues")
		f.wait(5010, 0.5)
		require.InDelta(t, 105, arrivals(), 1e-9)
	})
}

// What is read and written, on a real database.
func TestStore(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	q := dbq.New(pool)
	row, err := q.ElasticRead(t.Context(), dbq.ElasticReadParams{Queues: []string{}, WorkerID: "a"})
	require.NoError(t, err)
	require.Greater(t, row.AgeSeconds, 1e8, "nobody leads")
	require.Contains(t, row.Settings, `"elastic_min": 2`)
	require.NotContains(t, row.Settings, "notify")

	for _, sql := range []string{
		"INSERT INTO sched.worker (id, client_id, state) VALUES ('a', 'a', 'active'), ('b', 'b', 'active')",
		"INSERT INTO sched.queue (name, base, pending, weight_total) VALUES ('q', 'q', 100, 40), ('open', 'open', 30, 0), ('other', 'other', 500, 0)",
		"INSERT INTO sched.assignment (queue, worker_id, weight, reason, version) VALUES ('q', 'a', 10, 'r', 1), ('q', 'b', 30, 'r', 1)",
		"UPDATE sched.fleet SET workers = 2, computed_at = clock_timestamp()",
	} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	row, err = q.ElasticRead(t.Context(), dbq.ElasticReadParams{Queues: []string{"q", "open"}, WorkerID: "a"})
	require.NoError(t, err)
	require.Equal(t, []string{"open", "q"}, row.Queues)
	require.Equal(t, []int32{30, 100}, row.Pending)
	require.InDeltaSlice(t, []float64{0.5, 0.25}, row.Shares, 1e-9)
	require.Less(t, row.AgeSeconds, 60.0)

	// Weights move before their sum does: no share is more than all of it.
	_, err = pool.Exec(t.Context(), "UPDATE sched.assignment SET weight = 80 WHERE worker_id = 'a'")
	require.NoError(t, err)
	moved, err := q.ElasticRead(t.Context(), dbq.ElasticReadParams{Queues: []string{"q"}, WorkerID: "a"})
	require.NoError(t, err)
	require.InDeltaSlice(t, []float64{1}, moved.Shares, 1e-9)
	require.NotEqual(t, row.Served, moved.Served, "other queues")

	// Nobody is needed for what is paused, nor has it arrived when that is over.
	_, err = pool.Exec(t.Context(), "INSERT INTO sched.river_queue (name, paused_at) VALUES ('q', now()), ('open', NULL) ON CONFLICT (name) DO UPDATE SET paused_at = excluded.paused_at")
	require.NoError(t, err)
	paused, err := q.ElasticRead(t.Context(), dbq.ElasticReadParams{Queues: []string{"q", "open"}, WorkerID: "a"})
	require.NoError(t, err)
	require.Equal(t, []string{"open"}, paused.Queues)
	require.NotEqual(t, row.Served, paused.Served)

	f := &fake{rate: 100, slots: 8, row: row}
	s, _ := newSizer(f, false)
	s.Step(t.Context())
	require.Len(t, f.written, 1)
	f.written[0].ID = "a"
	require.NoError(t, q.WorkerElastic(t.Context(), f.written[0]))
	var demand float64
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT demand FROM sched.fleet_demand").Scan(&demand))
	require.InDelta(t, f.written[0].Demand.Float32, demand, 1e-3)
	var parts, total float64
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT score_cpu + score_mem + score_pending, score FROM sched.worker WHERE id = 'a'").Scan(&parts, &total))
	require.Positive(t, total)
	require.InDelta(t, total, parts, 1e-3, "the parts of the score add up to it")
}
