package see_test

import (
	"context"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

const sqlDashboardFile = "../../deploy/grafana/dashboards/sched-postgres.json"

// sqlDashboard is what is asked of the dashboard on Postgres.
type sqlDashboard struct {
	UID        string
	Links      []struct{ Title, URL string }
	Templating struct {
		List []struct {
			Name, Type, Query, AllValue string
			IncludeAll                  bool
		}
	}
	Panels []struct {
		ID      int
		Type    string
		Title   string
		Targets []struct{ RawSQL, Format string }
	}
}

func readSQLDashboard(t *testing.T) sqlDashboard {
	t.Helper()
	text, err := os.ReadFile(sqlDashboardFile)
	require.NoError(t, err)
	var d sqlDashboard
	require.NoError(t, json.Unmarshal(text, &d))
	return d
}

// expand replaces Grafana's macros and the dashboard's variables as Grafana does, for the last six hours. Of a variable without a
// value all is chosen, for which its allValue stands as it is written.
func (d sqlDashboard) expand(sql string, chosen map[string]string) string {
	sql = regexp.MustCompile(`\$__timeFilter\((\w+)\)`).ReplaceAllString(sql, "$1 BETWEEN now() - interval '6 hours' AND now() + interval '1 minute'")
	sql = regexp.MustCompile(`\$__timeGroupAlias\((\w+), \$__interval\)`).ReplaceAllString(sql, `floor(extract(epoch from $1)/60)*60 AS "time"`)
	for _, v := range d.Templating.List {
		value := v.AllValue
		if chosen[v.Name] != "" {
			value = chosen[v.Name]
		}
		sql = strings.ReplaceAll(sql, "$"+v.Name, value)
	}
	return sql
}

// fleetOf fills a database with all that a dashboard shows.
func fleetOf(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	_, err := pool.Exec(t.Context(), `
		INSERT INTO sched.worker (id, client_id, hostname, state, running, slots, ceiling) VALUES ('w-one', 'c', 'alpha', 'active', 1, 4, 8);
		SELECT sched.enqueue('mail') FROM generate_series(1, 6);
		UPDATE sched.river_job SET state = CASE WHEN id % 2 = 0 THEN 'completed' ELSE 'discarded' END::sched.river_job_state, attempt = 2, attempted_by = '{w-one,w-one}',
			attempted_at = now() - interval '1 hour', finalized_at = now() - interval '59 minutes', errors = ARRAY['{"attempt": 2, "error": "no paper"}'::jsonb];
		SELECT sched.archive_tasks(s, '2000-01-01', 2) FROM unnest('{completed,discarded}'::sched.river_job_state[]) AS s;
		SELECT sched.enqueue('bill');
		INSERT INTO sched.assignment (queue, worker_id, weight, reason, version) VALUES ('default', 'w-one', 4, 'serves all', 1);
		INSERT INTO sched.decision (what, subject, who, from_value, to_value, reason) VALUES ('slots', 'w-one', 'w-one', '2', '4', 'demand');
		UPDATE sched.setting SET value = '999' WHERE key = 'max_pending'`)
	require.NoError(t, err)
}

// Every query of the dashboard on Postgres answers, as Grafana wants it.
func TestSQLDashboard(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	fleetOf(t, pool)
	conn, err := pgx.Connect(t.Context(), pgtest.DSN(pool))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.Background())) })
	d := readSQLDashboard(t)
	chosen := map[string]string{"queue": "'default','other'", "kind": "'mail','bill'"}
	ask := func(sql string) ([]string, int) {
		_, err := conn.Exec(t.Context(), d.expand(sql, chosen), pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err)
		rows, err := conn.Query(t.Context(), d.expand(sql, nil), pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err)
		defer rows.Close()
		n := 0
		for rows.Next() {
			n++
		}
		require.NoError(t, rows.Err(), sql)
		var names []string
		for _, field := range rows.FieldDescriptions() {
			names = append(names, field.Name)
		}
		return names, n
	}

	require.Equal(t, "sched-postgres", d.UID)
	require.Equal(t, "/d/sched-prometheus", d.Links[0].URL)
	require.Equal(t, "${console}", d.Links[1].URL)
	seen := map[int]bool{}
	targets := 0
	for _, panel := range d.Panels {
		require.False(t, seen[panel.ID], "ids are unique")
		seen[panel.ID] = true
		if panel.Type != "row" {
			require.NotEmpty(t, panel.Targets, panel.Title)
		}
		for _, target := range panel.Targets {
			targets++
			if strings.Contains(target.RawSQL, "$__timeFilter") {
				require.Regexp(t, `\$__timeFilter\(\w+\) ORDER BY \w+ DESC LIMIT \d+`, target.RawSQL, "%s: the latest of the span, whatever is filtered", panel.Title)
			}
			names, rows := ask(target.RawSQL)
			require.Positive(t, rows, "%s: %s", panel.Title, target.RawSQL)
			if target.Format == "time_series" {
				require.Contains(t, names, "time", panel.Title)
			}
		}
	}
	require.Greater(t, targets, 15)
	for _, v := range d.Templating.List {
		require.Equal(t, v.IncludeAll, v.AllValue != "", "%s: all is all that there is, not what its list has", v.Name)
		if v.Type == "query" {
			_, rows := ask(v.Query)
			require.Positive(t, rows, v.Name)
		}
	}
}

// Whoever may read the views, and no table, sees the whole dashboard.
func TestSQLDashboardNeedsViewsOnly(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	rows, err := pool.Query(t.Context(), "SELECT relname::text FROM pg_class WHERE relnamespace = 'sched'::regnamespace AND relkind IN ('r', 'p')")
	require.NoError(t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.NotEmpty(t, tables)
	for _, panel := range readSQLDashboard(t).Panels {
		for _, target := range panel.Targets {
			for _, table := range tables {
				require.NotRegexp(t, `sched\.`+table+`\b`, target.RawSQL, panel.Title)
			}
		}
	}
}

// The panel of waiting tasks has those that wait longest, however many wait.
func TestWaitingTasksPanel(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	_, err := pool.Exec(t.Context(), `
		INSERT INTO sched.queue (name, base) VALUES ('bulk', 'bulk'), ('mail', 'mail');
		INSERT INTO sched.river_job (kind, queue, args, scheduled_at) SELECT 'bulk', 'bulk', '{}', now() - interval '1 minute' FROM generate_series(1, 10500);
		INSERT INTO sched.river_job (kind, queue, args, priority, scheduled_at) VALUES ('old', 'bulk', '{}', 4, now() - interval '1 hour'), ('mail', 'mail', '{}', 1, now() - interval '2 hours')`)
	require.NoError(t, err)
	d := readSQLDashboard(t)
	for _, panel := range d.Panels {
		if panel.Title != "Waiting tasks" {
			continue
		}
		rows, err := pool.Query(t.Context(), "SELECT kind FROM ("+d.expand(panel.Targets[0].RawSQL, nil)+") AS w")
		require.NoError(t, err)
		kinds, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		require.Len(t, kinds, 50)
		require.Equal(t, []string{"mail", "old", "bulk"}, kinds[:3])
		return
	}
	require.Fail(t, "there is no such panel")
}
