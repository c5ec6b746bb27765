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
	"github.com/sched-sidecar/sched/sidecar/sizer"
	"github.com/sched-sidecar/sched/sql/dbq"
)

// fake is a governor whose app takes 50 ms for a task, and a store.
type fake struct {
	rate  float64
	slots int
	holds []string
	notes []routing.Decision

	row     dbq.ElasticReadRow
	err     error
	written []dbq.WorkerElasticParams
}

func (f *fake) Tally() governor.Tally {
	ended := int(min(f.rate, float64(f.slots)*20))
	running := float64(ended) / 20
	return governor.Tally{Since: time.Second, Claimed: ended, Ended: ended, Held: time.Duration(ended) * 50 * time.Millisecond, Running: running, Peak: min(f.slots, int(running)+2)}
}

func (f *fake) Status() governor.Status {
	return governor.Status{WorkerID: "w-1", Slots: f.slots, Ceiling: 64, Holds: f.holds, Queues: []string{"default"}}
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

func newSizer(f *fake, observe bool) (*sizer.Sizer, *prometheus.Registry) {
	registry := prometheus.NewRegistry()
	return sizer.New(sizer.Config{
		Governor: f, Store: f, Load: func() (float64, float64, bool) { return 0.2, 0.2, true }, Observe: observe, AppDown: "app down",
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
		f.row.Pending, f.row.Waiting = 120, 120
		play(t, s, 6)
		f.row.Pending, f.row.Waiting = 0, 0
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
				f := &fake{rate: 1000, slots: 8, row: dbq.ElasticReadRow{Settings: `{}`, Pending: 1000, Waiting: 1000}}
				s, _ := newSizer(f, false)
				change(f)
				play(t, s, 30)
				require.Equal(t, 8, f.slots)
				require.Len(t, f.notes, 1, "said once")
			})
		})
	}
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
	require.InDelta(t, 25+15, row.Pending, 1e-9)
	require.Equal(t, int64(130), row.Waiting)
	require.Less(t, row.AgeSeconds, 60.0)

	// Weights move before their sum does: no share is more than all of it.
	_, err = pool.Exec(t.Context(), "UPDATE sched.assignment SET weight = 80 WHERE worker_id = 'a'")
	require.NoError(t, err)
	moved, err := q.ElasticRead(t.Context(), dbq.ElasticReadParams{Queues: []string{"q"}, WorkerID: "a"})
	require.NoError(t, err)
	require.InDelta(t, 100, moved.Pending, 1e-9)

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
