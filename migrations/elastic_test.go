package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/elastic"
	"github.com/sched-sidecar/sched/internal/pgtest"
)

// The table refuses what the controller would.
func TestElasticWeightsAreChecked(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for value, good := range map[string]bool{
		`"profile"`: true, `"0.4/0.3/0.3"`: true, `"1/0/0"`: true, `"1.0/0/0.0"`: true, `"0.401/0.3/0.3"`: true, `"0.3334/0.3333/0.3333"`: true,
		`"0.402/0.3/0.3"`: false, `"0.3/0.3/0.3"`: false, `"1/1/1"`: false, `"-0.1/0.6/0.5"`: false, `"1.1/0/0"`: false, `"0.5/0.5"`: false,
		`"NaN/0.5/0.5"`: false, `""`: false, `"x"`: false, `1`: false, `null`: false, `[0.4, 0.3, 0.3]`: false, `"0.4/0.3/0.3/0"`: false,
	} {
		_, err := pool.Exec(t.Context(), "UPDATE sched.setting SET value = $1::text::jsonb WHERE key = 'elastic_weights'", value)
		_, parseErr := elastic.ParseSettings(map[string]string{elastic.KeyWeights: value})
		if good {
			require.NoError(t, err, value)
			require.NoError(t, parseErr, value)
			continue
		}
		require.ErrorContains(t, err, "setting_elastic_fits", value)
		if value != "null" && value != `""` { // which the controller takes for the profile's
			require.Error(t, parseErr, value)
		}
	}
	rows := map[string]string{}
	for _, key := range all[string](t, pool, "SELECT key FROM sched.setting WHERE key LIKE 'elastic%'") {
		rows[key] = all[string](t, pool, "SELECT CASE WHEN key = 'elastic_weights' THEN '\"profile\"' ELSE value::text END FROM sched.setting WHERE key = $1", key)[0]
	}
	require.Len(t, rows, 8)
	settings, err := elastic.ParseSettings(rows)
	require.NoError(t, err)
	require.Equal(t, elastic.DefaultSettings(), settings, "the rows are the defaults")
}

// worker inserts a worker with the columns given.
func worker(t *testing.T, pool *pgxpool.Pool, id, set string) {
	t.Helper()
	_, err := pool.Exec(t.Context(), "INSERT INTO sched.worker (id, client_id, state, slots, ceiling) VALUES ($1, $1, 'active', 8, 10)", id)
	require.NoError(t, err)
	if set != "" {
		_, err = pool.Exec(t.Context(), "UPDATE sched.worker SET "+set+" WHERE id = $1", id)
		require.NoError(t, err)
	}
}

func TestFleetDemand(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		workers []string // what each has set
		sql     string
		want    string
	}{
		{"nobody, nothing", nil, "", "0 nothing to do"},
		{"a task waits and nobody works", nil, "SELECT sched.enqueue('k')", "1 a task waits and nobody works"},
		{"a task is due and nobody promotes it", nil, `SELECT sched.enqueue('k', run_at => now() + interval '1 hour');
			UPDATE sched.river_job SET scheduled_at = now() - interval '1 second'`, "1 a task waits and nobody works"},
		{"what waits is paused", nil, `SELECT sched.enqueue('k', queue => 'q'); SELECT sched.enqueue('k', queue => 'q');
			INSERT INTO sched.river_queue (name, paused_at) VALUES ('q', now()) ON CONFLICT (name) DO UPDATE SET paused_at = now()`, "0 nothing to do"},
		{"what is due is paused", nil, `SELECT sched.enqueue('k', queue => 'q', run_at => now() + interval '1 hour');
			UPDATE sched.river_job SET scheduled_at = now() - interval '1 second';
			INSERT INTO sched.river_queue (name, paused_at) VALUES ('q', now()) ON CONFLICT (name) DO UPDATE SET paused_at = now()`, "0 nothing to do"},
		{"not all that waits is paused", nil, `SELECT sched.enqueue('k', queue => 'q'); SELECT sched.enqueue('k', queue => 'a'); SELECT sched.enqueue('k', queue => 'z');
			INSERT INTO sched.river_queue (name, paused_at) VALUES ('q', now()), ('a', now()) ON CONFLICT (name) DO UPDATE SET paused_at = now()`, "1 a task waits and nobody works"},
		{"a task is for later", nil, "SELECT sched.enqueue('k', run_at => now() + interval '1 hour')", "0 nothing to do"},
		{"demand fills workers to 80 %", []string{"demand = 20", "demand = 13"}, "", "5 what arrives and waits needs them"},
		{"exactly", []string{"demand = 16", "demand = 16"}, "", "4 what arrives and waits needs them"},
		{"no demand, but what runs", []string{"demand = 0, running = 9", "demand = 0, running = 8"}, "", "2 what runs needs them"},
		{"no controller: what runs", []string{"running = 9"}, "", "2 what arrives and waits needs them"},
		{"idle", []string{"demand = 0", "demand = 0"}, "", "0 nothing to do"},
		{"no room", []string{"demand = 4, scale_out = true, running = 4", "demand = 4, running = 4"}, "", "2 what arrives and waits needs them"},
		{"no room anywhere", []string{"demand = 4, scale_out = true, running = 8"}, "", "2 workers have no cpu or memory left"},
		{"no room, nor with the others", []string{"demand = 4, scale_out = true, running = 8", "demand = 9, running = 9"}, "", "3 workers have no cpu or memory left"},
		{"no room here, much with the others", []string{"demand = 1, scale_out = true, slots = 1", "demand = 0", "demand = 0"}, "", "3 workers have no cpu or memory left"},
		{"no room counts as no room", []string{"demand = 40, scale_out = true, slots = 4"}, "", "13 what arrives and waits needs them"},
		{"draining ones stay until they are done", []string{"demand = 4", "state = 'draining', running = 3, demand = 9", "state = 'draining'"}, "", "2 what arrives and waits needs them"},
		{"ended ones are gone", []string{"state = 'done', demand = 50", "state = 'evicted', demand = 50"}, "", "0 nothing to do"},
		{"nobody heard of it for long", []string{"demand = 50, heartbeat_at = now() - interval '2 minutes'"}, "", "0 nothing to do"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			for i, set := range test.workers {
				worker(t, pool, string(rune('a'+i)), set)
			}
			if test.sql != "" {
				_, err := pool.Exec(t.Context(), test.sql)
				require.NoError(t, err)
			}
			require.Equal(t, []string{test.want}, all[string](t, pool, "SELECT desired_workers || ' ' || reason FROM sched.fleet_demand"))
		})
	}
}
