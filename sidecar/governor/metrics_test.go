package governor_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/sidecar/dispatch"
	"github.com/sched-sidecar/sched/sidecar/governor"
	"github.com/sched-sidecar/sched/sidecar/spans"
)

// shown returns the series of a metric, by their labels' values.
func shown(t *testing.T, cfg governor.Config, name string) map[string]*dto.Metric {
	t.Helper()
	families, err := cfg.Registerer.(*prometheus.Registry).Gather()
	require.NoError(t, err)
	series := map[string]*dto.Metric{}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			var values []string
			for _, label := range metric.GetLabel() {
				values = append(values, label.GetValue())
			}
			series[strings.Join(values, " ")] = metric
		}
	}
	return series
}

func gaugeValue(t *testing.T, cfg governor.Config, name, labels string) float64 {
	t.Helper()
	series := shown(t, cfg, name)
	require.Contains(t, series, labels, name)
	return series[labels].GetGauge().GetValue()
}

func TestMetrics_SlotsAreRunningIdleOrBlocked(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	b := newBlocker()
	cfg := config(pool, &dispatcherFunc{work: b.work})
	cfg.Queues = []string{"post", "mail"}
	g := start(t, cfg)
	for range 3 {
		enqueue(t, pool, `'letter', '{}', queue => 'post'`)
		b.next(t)
	}
	states := func() (slots [3]float64) {
		for i, state := range []string{"running", "idle", "blocked"} {
			slots[i] = gaugeValue(t, cfg, "sched_worker_pool_workers_active", "mail,post "+state)
		}
		return slots
	}
	require.Equal(t, [3]float64{3, 7, 0}, states())
	g.Hold("test")
	require.Equal(t, [3]float64{3, 0, 7}, states())
	g.Release("test")
	require.NoError(t, g.SetSlots(2))
	require.Equal(t, [3]float64{3, 0, 0}, states(), "more run than there are slots")
}

func TestMetrics_KindsAndQueuesAreBounded(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	const kinds = 60
	for i := range kinds {
		enqueue(t, pool, `$1, '{}', queue => $1`, fmt.Sprintf("k%02d", i))
	}
	cfg := config(pool, &dispatcherFunc{work: func(_ context.Context, task *dispatch.Task) jobs.Outcome {
		if task.Kind == "k00" {
			return jobs.Outcome{Kind: jobs.OutcomeDiscard, Error: "hopeless"}
		}
		return jobs.Outcome{Kind: jobs.OutcomeComplete}
	}})
	start(t, cfg)
	eventually(t, func() bool {
		total := uint64(0)
		for _, series := range shown(t, cfg, "sched_worker_pool_task_duration_seconds") {
			total += series.GetHistogram().GetSampleCount()
		}
		return total == kinds
	}, "each task is observed")
	durations, waits := shown(t, cfg, "sched_worker_pool_task_duration_seconds"), shown(t, cfg, "sched_queue_wait_seconds")
	require.Len(t, durations, 51)
	require.Len(t, waits, 51)
	require.EqualValues(t, 10, waits["other"].GetHistogram().GetSampleCount())
	require.NotEmpty(t, waits["other"].GetHistogram().GetPositiveSpan(), "a native histogram")
	require.NotEmpty(t, waits["other"].GetHistogram().GetBucket(), "and a classic one")
	statuses := shown(t, cfg, "sched_task_status_changes_total")
	require.InDelta(t, 1, statuses["discarded"].GetCounter().GetValue(), 0)
	require.InDelta(t, kinds-1, statuses["completed"].GetCounter().GetValue(), 0)
	require.InDelta(t, kinds-1, shown(t, cfg, "sched_tasks_settled_total")["complete"].GetCounter().GetValue(), 0)
	require.EqualValues(t, kinds-1, shown(t, cfg, "sched_dispatch_duration_seconds")["complete http"].GetHistogram().GetSampleCount())
	require.NotZero(t, shown(t, cfg, "sched_claim_batch_size")[""].GetHistogram().GetSampleSum())
}

func TestMetrics_TasksThatTheAppCompletedCountOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	answers := map[string]jobs.Outcome{
		"told":     {Kind: jobs.OutcomeComplete},
		"failed":   {Kind: jobs.OutcomeRetry, Error: "after the commit"},
		"accepted": {Kind: jobs.OutcomeAccepted},
	}
	cfg := config(pool, &dispatcherFunc{work: func(ctx context.Context, task *dispatch.Task) jobs.Outcome {
		_, err := pool.Exec(ctx, `select sched.complete($1, $2)`, task.ID, task.Lease.String())
		if err != nil {
			return jobs.Outcome{Kind: jobs.OutcomeDiscard, Error: err.Error()}
		}
		return answers[task.Kind]
	}})
	start(t, cfg)
	for kind := range answers {
		enqueue(t, pool, `$1`, kind)
	}
	counted := func(name string) map[string]float64 {
		values := map[string]float64{}
		for labels, series := range shown(t, cfg, name) {
			if value := series.GetCounter().GetValue() + float64(series.GetHistogram().GetSampleCount()); value > 0 {
				values[labels] = value
			}
		}
		return values
	}
	eventually(t, func() bool { return counted("sched_settles_replayed_total")[""] == 3 }, "all are known to be settled")
	eventually(t, func() bool { return len(counted("sched_worker_pool_task_duration_seconds")) == 3 }, "each is observed")
	require.Equal(t, map[string]float64{"complete": 3}, counted("sched_tasks_settled_total"))
	require.Equal(t, map[string]float64{"completed": 3}, counted("sched_task_status_changes_total"))
	require.Equal(t, map[string]float64{"accepted complete": 1, "failed complete": 1, "told complete": 1}, counted("sched_worker_pool_task_duration_seconds"))
}

func TestMetrics_NothingIsMeasuredWithoutARegisterer(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	cfg := config(pool, &dispatcherFunc{work: complete})
	cfg.Registerer = nil
	start(t, cfg)
	eventuallyState(t, pool, enqueue(t, pool, `'quiet', '{}'`), "completed")
}

func TestMetrics_TimedTasksAreLate(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	cfg := config(pool, &dispatcherFunc{work: complete})
	cfg.Spans = spans.New(sdktrace.NewTracerProvider(), 1)
	start(t, cfg)
	eventuallyState(t, pool, enqueue(t, pool, `'now', '{}'`), "completed")
	eventuallyState(t, pool, enqueue(t, pool, `'later', '{}', run_at => clock_timestamp() + interval '300 milliseconds'`), "completed")
	eventually(t, func() bool {
		return shown(t, cfg, "sched_timed_task_lateness_seconds")[""].GetHistogram().GetSampleCount() == 1
	}, "the timed task alone is observed")
	for _, name := range []string{"sched_timed_task_lateness_seconds", "sched_queue_wait_seconds", "sched_dispatch_duration_seconds", "sched_worker_pool_task_duration_seconds"} {
		exemplars := 0
		for _, series := range shown(t, cfg, name) {
			for _, bucket := range series.GetHistogram().GetBucket() {
				if bucket.GetExemplar() != nil {
					exemplars++
				}
			}
		}
		require.Positive(t, exemplars, "%s has the traces of its tasks", name)
	}
}

func TestMetrics_LeaderShowsWhatKeepsDeadRows(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	old, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, old.Rollback(context.WithoutCancel(t.Context()))) }()
	_, err = old.Exec(t.Context(), `SET TRANSACTION ISOLATION LEVEL REPEATABLE READ`)
	require.NoError(t, err)
	_, err = old.Exec(t.Context(), `SELECT count(*) FROM sched.river_job`)
	require.NoError(t, err)
	for range 50 {
		_, err = pool.Exec(t.Context(), `SELECT pg_current_xact_id()`)
		require.NoError(t, err)
	}
	cfg := config(pool, &dispatcherFunc{work: complete})
	start(t, cfg)
	eventually(t, func() bool { return gaugeValue(t, cfg, "sched_postgres_xmin_age_transactions", "") >= 50 }, "the old snapshot's age")
	require.Positive(t, gaugeValue(t, cfg, "sched_postgres_oldest_transaction_seconds", ""))
	require.InDelta(t, 0, gaugeValue(t, cfg, "sched_foreign_leader", ""), 0)
}

func TestMetrics_ForeignLeader(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	_, err := pool.Exec(t.Context(), `INSERT INTO sched.river_leader (elected_at, expires_at, leader_id, name) VALUES (now(), now() + interval '1 hour', 'somebody else', 'default')`)
	require.NoError(t, err)
	cfg := config(pool, &dispatcherFunc{work: complete})
	start(t, cfg)
	eventually(t, func() bool { return gaugeValue(t, cfg, "sched_foreign_leader", "") == 1 }, "a foreign client leads")
}

func TestMetrics_NotificationsAreCountedWithoutTheirSenders(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	cfg := config(pool, &dispatcherFunc{work: complete})
	start(t, cfg)
	eventually(t, func() bool {
		return gaugeValue(t, cfg, "sched_leading", "") == 1 && gaugeValue(t, cfg, "sched_listening", "") == 1
	}, "it leads and listens")
	enqueued := 0
	counted := func(name, labels string) float64 { return shown(t, cfg, name)[labels].GetCounter().GetValue() }
	eventually(t, func() bool {
		// One notification, for five tasks.
		_, err := pool.Exec(t.Context(), `SELECT sched.enqueue_many((SELECT jsonb_agg(jsonb_build_object('kind', 'many')) FROM generate_series(1, 5)))`)
		require.NoError(t, err)
		enqueued += 5
		return counted("sched_notifications_total", "suppressed") > 0
	}, "tasks without a notification")
	require.LessOrEqual(t, counted("sched_tasks_enqueued_total", ""), float64(enqueued))
	require.Positive(t, counted("sched_tasks_enqueued_total", ""))
}

func TestMetrics_ExemplarsCarryTheTrace(t *testing.T) {
	t.Parallel()
	provider := sdktrace.NewTracerProvider()
	task := &dispatch.Task{ID: 1, Queue: "q"}
	attempt := spans.New(provider, 1).Begin(task, time.Now(), time.Now())
	histogram := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "example", Buckets: []float64{1}})
	governor.Observe(attempt, histogram, 0.5)
	governor.Observe(nil, histogram, 0.7) // belongs to none
	var written dto.Metric
	require.NoError(t, histogram.Write(&written))
	require.EqualValues(t, 2, written.GetHistogram().GetSampleCount())
	exemplar := written.GetHistogram().GetBucket()[0].GetExemplar()
	require.Equal(t, "trace_id", exemplar.GetLabel()[0].GetName())
	require.Contains(t, task.Headers["traceparent"], exemplar.GetLabel()[0].GetValue())
	require.Len(t, exemplar.GetLabel()[0].GetValue(), 32)
	require.InDelta(t, 0.5, exemplar.GetValue(), 0)
}
