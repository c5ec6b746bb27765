package routing_test

import (
	"log/slog"
	"math"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/routing"
)

func newDecisions(t *testing.T, db routing.DB) (*routing.DecisionLog, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	return routing.NewDecisionLog(db, func() string { return "w-leader" }, slog.New(slog.DiscardHandler), registry), registry
}

func dropped(t *testing.T, registry *prometheus.Registry) float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() == "sched_decisions_dropped_total" {
			return family.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return -1
}

func TestDecisionsAreWrittenAsNoted(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	log, _ := newDecisions(t, pool)
	log.Note(routing.Decision{What: "pressure", Subject: "mail", From: "green", To: "red", Reason: "950 of 1000 wait", Signals: map[string]any{"pending": 950}})
	log.Note(routing.Decision{What: "evict", Subject: "w-1", Reason: "its heartbeat stood still", Signals: map[string]any{"broken": math.NaN()}})
	require.NoError(t, log.Flush(t.Context()))
	require.NoError(t, log.Flush(t.Context()), "nothing is written twice")

	type row struct {
		What, Subject, Who string
		FromValue, ToValue *string
		Reason, Signals    string
	}
	rows, err := pool.Query(t.Context(), `select what, subject, who, from_value, to_value, reason, signals::text from sched.decision order by id`)
	require.NoError(t, err)
	got, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	require.NoError(t, err)
	green, red := "green", "red"
	require.Equal(t, []row{
		{"pressure", "mail", "w-leader", &green, &red, "950 of 1000 wait", `{"pending": 950}`},
		{"evict", "w-1", "w-leader", nil, nil, "its heartbeat stood still", "{}"},
	}, got)
}

func TestDecisionsBeyondTheBoundAreCountedAndForgotten(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	log, registry := newDecisions(t, pool)
	for range 2010 {
		log.Note(routing.Decision{What: "pressure", Subject: "mail", Reason: "r"})
	}
	require.InDelta(t, 10, dropped(t, registry), 0)
	require.NoError(t, log.Flush(t.Context()))
	require.Equal(t, 2000, count(t, pool, `select count(*) from sched.decision`))
}

func TestDecisionThatCannotBeStoredHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	log, registry := newDecisions(t, pool)
	log.Note(routing.Decision{What: "pause", Subject: "mail", Reason: "nul \x00"})
	require.Error(t, log.Flush(t.Context()))
	require.InDelta(t, 1, dropped(t, registry), 0)
	log.Note(routing.Decision{What: "pause", Subject: "mail", Reason: "fine"})
	require.NoError(t, log.Flush(t.Context()))
	require.Equal(t, 1, count(t, pool, `select count(*) from sched.decision`))
}

func TestDecisionsSurviveAnOutage(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	log, registry := newDecisions(t, pool)
	_, err := pool.Exec(t.Context(), `alter table sched.decision rename to away`)
	require.NoError(t, err)
	log.Note(routing.Decision{What: "pause", Subject: "mail", Reason: "r"})
	require.Error(t, log.Flush(t.Context()))
	_, err = pool.Exec(t.Context(), `alter table sched.away rename to decision`)
	require.NoError(t, err)
	require.NoError(t, log.Flush(t.Context()))
	require.Equal(t, 1, count(t, pool, `select count(*) from sched.decision where at < clock_timestamp()`))
	require.InDelta(t, 0, dropped(t, registry), 0)
}

func count(t *testing.T, db routing.DB, query string, args ...any) int {
	t.Helper()
	var n int
	require.NoError(t, db.QueryRow(t.Context(), query, args...).Scan(&n))
	return n
}
