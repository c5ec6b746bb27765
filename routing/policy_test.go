package routing_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/routing"
)

func exec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	_, err := pool.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

func policy(t *testing.T, pool *pgxpool.Pool, labels map[string]string, protocols, bases []string) routing.Policy {
	t.Helper()
	got, err := routing.NewRegistry(pool).Policy(t.Context(), "w-me", labels, protocols, bases)
	require.NoError(t, err)
	return got
}

const led = `update sched.fleet set computed_at = clock_timestamp() + interval '1 hour', workers = 7, policy_version = 42, leader = 'w-lead'`

func TestPolicyOfAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	got := policy(t, pgtest.New(t), nil, []string{"http"}, nil)
	require.Empty(t, got.Queues)
	require.Empty(t, got.Kinds)
	require.Equal(t, time.Minute, got.Ageing)
	require.InDelta(t, 500, got.BusyPolls, 0)
	require.False(t, got.Led)
}

// TestPolicyServes: labels, protocol and base name must match, and the assignments,
// where there are any, must not say otherwise.
func TestPolicyServes(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"zone": "cn-north", "gpu": "true"}
	tests := map[string]struct {
		sql   string
		bases []string
		want  []string
	}{
		"labels and protocol": {want: []string{"anyone", "gpu", "http", "zoned"}},
		"narrowed":            {bases: []string{"gpu", "arm"}, want: []string{"gpu"}},
		"assigned to another": {
			sql:  led + `; insert into sched.assignment (queue, worker_id, weight, reason, version) values ('gpu', 'w-other', 5, '', 1)`,
			want: []string{"anyone", "http", "zoned"},
		},
		"assigned to both": {
			sql:  led + `; insert into sched.assignment (queue, worker_id, weight, reason, version) values ('gpu', 'w-other', 5, '', 1), ('gpu', 'w-me', 5, '', 1)`,
			want: []string{"anyone", "gpu", "http", "zoned"},
		},
		"assigned to another, by a leader that is gone": {
			sql: `insert into sched.assignment (queue, worker_id, weight, reason, version) values ('gpu', 'w-other', 5, '', 1);
				update sched.fleet set computed_at = clock_timestamp() - interval '6 seconds'`,
			want: []string{"anyone", "gpu", "http", "zoned"},
		},
		"assigned, although the labels don't match any more": {
			sql:  led + `; insert into sched.assignment (queue, worker_id, weight, reason, version) values ('arm', 'w-me', 5, '', 1)`,
			want: []string{"anyone", "gpu", "http", "zoned"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			exec(t, pool, `insert into sched.queue (name, base, selector, protocol) values
				('anyone', 'anyone', '{}', 'any'), ('gpu', 'gpu', '{"gpu": "true"}', 'any'), ('arm', 'arm', '{"arch": "arm64"}', 'any'),
				('zoned', 'zoned', '{"gpu": "true", "zone": "cn-north"}', 'any'), ('other', 'other', '{"gpu": "true", "zone": "eu"}', 'any'),
				('http', 'http', '{}', 'http'), ('grpc', 'grpc', '{}', 'grpc')`)
			if tt.sql != "" {
				exec(t, pool, tt.sql)
			}
			got := policy(t, pool, labels, []string{"http"}, tt.bases)
			require.Equal(t, tt.want, got.Names())
		})
	}
}

func TestPolicyTells(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool, led+`;
		insert into sched.queue (name, base, strategy, weight_total, free_slots, workers, rate, max_running, wake) values
			('b|0123456789ab', 'b', 'round_robin', 300, 21, 3, null, 5, '{}'), ('a', 'a', 'least_loaded', 0, 0, 0, null, null, null),
			('c', 'c', 'least_loaded', 0, 0, 0, 10, null, '{w-me}');
		insert into sched.assignment (queue, worker_id, weight, reason, version) values ('b|0123456789ab', 'w-me', 100, '', 1);
		insert into sched.river_queue (name, created_at, updated_at, paused_at) values ('a', now(), now(), now()), ('c', now(), now(), null);
		insert into sched.canary (queue, percent, workers) values ('a', 5, 0), ('c', 15, 1);
		insert into sched.kind (kind, rate) values ('limited', 3), ('both', 3);
		insert into sched.kind (kind) values ('free');
		insert into sched.flow (scope, name, paused_until) values
			('kind', 'both', now() + interval '1 minute'), ('kind', 'over', now() - interval '1 second'),
			('kind', 'endless', 'infinity'), ('kind', 'free', null), ('queue', 'a', now() + interval '1 hour');
		insert into sched.setting (key, value) values ('priority_ageing_seconds', '2.5'), ('busy_polls_per_second', '80')
			on conflict (key) do update set value = excluded.value`)
	before := time.Now()
	got := policy(t, pool, nil, []string{"http"}, nil)
	require.Equal(t, []routing.QueuePolicy{
		{Name: "a", Base: "a", Strategy: routing.LeastLoaded, Paused: true},
		{Name: "b|0123456789ab", Base: "b", Strategy: routing.RoundRobin, Weight: 100, WeightTotal: 300, FreeSlots: 21, Workers: 3, Polled: true, Limited: true, CanaryWorkers: -1},
		{Name: "c", Base: "c", Strategy: routing.LeastLoaded, Limited: true, CanaryPercent: 15, CanaryWorkers: 1},
	}, got.Queues)
	require.Equal(t, 2500*time.Millisecond, got.Ageing)
	require.InDelta(t, 80, got.BusyPolls, 0)
	require.EqualValues(t, 42, got.Version)
	require.Equal(t, 7, got.Workers)
	require.True(t, got.Led)
	require.WithinRange(t, got.ReadAt, before, time.Now())

	require.Len(t, got.Kinds, 3)
	both, endless, limited := got.Kinds[0], got.Kinds[1], got.Kinds[2]
	require.Equal(t, "both", both.Kind)
	require.True(t, both.Limited)
	require.WithinDuration(t, before.Add(time.Minute), both.PausedUntil, 30*time.Second)
	require.Equal(t, "endless", endless.Kind)
	require.False(t, endless.Limited)
	require.True(t, endless.PausedUntil.After(before.Add(24*time.Hour)))
	require.Equal(t, routing.KindPolicy{Kind: "limited", Limited: true}, limited)

	q, serves := got.Queue("c")
	require.True(t, serves)
	require.Equal(t, "c", q.Name)
	_, serves = got.Queue("bb")
	require.False(t, serves)
	_, bound := got.Kind("free")
	require.False(t, bound)
}

// TestPolicyOfManyQueues: 10,000 queues and as many assignments are read in one go,
// at a cost that grows with their number and no faster.
func TestPolicyOfManyQueues(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool, led+`;
		insert into sched.queue (name, base, selector) select 'q' || n, 'q' || n, case when n % 2 = 0 then '{"even": "yes"}'::jsonb else '{}' end
		from generate_series(1, 10000) n;
		insert into sched.assignment (queue, worker_id, weight, reason, version)
		select 'q' || n, w, 1, '', 1 from generate_series(1, 10000, 5) n, unnest(array['w-me', 'w-2', 'w-3', 'w-4', 'w-5']) w;
		insert into sched.river_queue (name, created_at, updated_at) select 'q' || n, now(), now() from generate_series(1, 10000) n`)
	start := time.Now()
	got := policy(t, pool, nil, []string{"http"}, nil)
	t.Logf("%d queues in %s", len(got.Queues), time.Since(start))
	require.Len(t, got.Queues, 5000, "those without a selector: 1000 assigned, among others, and 4000 that nobody is")
	require.Less(t, time.Since(start), 30*time.Second, "statistics are stale here: a nested loop over all of it would take minutes")
	require.True(t, slices.IsSortedFunc(got.Queues, func(a, b routing.QueuePolicy) int { return strings.Compare(a.Name, b.Name) }))
}

// A heartbeat tells whether the policy is still what the worker would read.
func TestHeartbeatTellsOfPolicies(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	registry := routing.NewRegistry(pool)
	exec(t, pool, `insert into sched.worker (id, client_id, state) values ('w-me', 'c', 'active')`)
	news := func(p routing.Policy) bool {
		t.Helper()
		heard, err := registry.Beat(t.Context(), "w-me", routing.Load{SkippedKinds: []string{}, Holds: []string{}})
		require.NoError(t, err)
		require.Equal(t, routing.StateActive, heard.State)
		return heard.News(&p)
	}
	read := policy(t, pool, nil, []string{"http"}, nil)
	require.False(t, news(read))
	exec(t, pool, led)
	require.True(t, news(read), "somebody leads")
	read = policy(t, pool, nil, []string{"http"}, nil)
	require.False(t, news(read))
	exec(t, pool, `update sched.fleet set policy_version = policy_version + 1`)
	require.True(t, news(read), "the leader changed something")
	read = policy(t, pool, nil, []string{"http"}, nil)
	exec(t, pool, `update sched.fleet set computed_at = clock_timestamp() - interval '1 minute'`)
	require.True(t, news(read), "nobody leads any more")
}
