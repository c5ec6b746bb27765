package operator

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

func leads(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	exec(t, pool, "UPDATE sched.fleet SET computed_at = clock_timestamp() + interval '1 hour', leader = 'w-lead', pressure = 'yellow', pressure_reason = 'load 70 %', workers = 3")
}

func TestPressure(t *testing.T) {
	t.Parallel()
	o, pool := setup(t)
	enqueue(t, pool, `'a', queue => 'bulk'`)
	enqueue(t, pool, `'a', queue => 'bulk', selector => '{"gpu": "a"}'`)
	enqueue(t, pool, `'a', queue => 'mail'`)
	exec(t, pool, "UPDATE sched.queue SET pressure = 'red', pressure_reason = 'full', pending = 9, max_pending = 10, load = 0.5 WHERE name = 'bulk'")

	got, err := o.Pressure(t.Context(), nil, false, 10)
	require.NoError(t, err)
	require.Len(t, got, 1, "nobody leads: all is green")
	require.Equal(t, "green", got[0].Level)
	require.False(t, got[0].Led)

	leads(t, pool)
	got, err = o.Pressure(t.Context(), nil, false, 10)
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.Equal(t, []string{"fleet", "yellow", "load 70 %", "w-lead"}, []string{got[0].Scope, got[0].Level, got[0].Reason, got[0].Leader})
	require.EqualValues(t, 1000, got[0].MaxPending)
	require.Equal(t, []string{"bulk", "red", "full"}, []string{got[1].Name, got[1].Level, got[1].Reason})
	require.Equal(t, []int64{9, 10}, []int64{got[1].Pending, got[1].MaxPending})

	got, err = o.Pressure(t.Context(), nil, true, 10)
	require.NoError(t, err)
	require.Len(t, got, 4)
	got, err = o.Pressure(t.Context(), []string{"bulk"}, false, 10)
	require.NoError(t, err)
	require.Len(t, got, 2, "and what is derived from it; not the fleet")
	_, err = o.Pressure(t.Context(), []string{"none"}, false, 10)
	require.ErrorIs(t, err, ErrNotFound)
}

func TestQueuesTellOfRouting(t *testing.T) {
	t.Parallel()
	o, pool := setup(t)
	enqueue(t, pool, `'a', queue => 'bulk', selector => '{"gpu": "a", "zone": "x"}', protocol => 'grpc'`)
	list := func() Queue {
		queues, err := o.Queues(t.Context(), nil, "", 10, 10)
		require.NoError(t, err)
		require.Len(t, queues, 1)
		return queues[0]
	}
	require.Empty(t, list().Unroutable, "nobody lives")
	register(t, pool, "w-one", "state, labels", `'active', '{"zone": "x"}'`)
	require.Equal(t, "gpu=a, protocol grpc", list().Unroutable, "without a leader, too")
	leads(t, pool)
	exec(t, pool, "UPDATE sched.queue SET unroutable = 'gpu=a together with zone=x', pressure = 'red', pressure_reason = 'full', workers = 2, rate = 2.5, max_running = 4")
	q := list()
	require.Equal(t, "gpu=a together with zone=x", q.Unroutable)
	require.Equal(t, "red", q.Pressure)
	require.InDelta(t, 2.5, *q.Rate, 0.001)
	require.EqualValues(t, 4, *q.MaxRunning)
	require.EqualValues(t, 2, q.Assigned)
	register(t, pool, "w-two", "state, labels, protocols", `'active', '{"zone": "x", "gpu": "a"}', '{grpc}'`)
	require.Empty(t, list().Unroutable, "somebody came since the leader looked")
}

func TestSetQueue(t *testing.T) {
	t.Parallel()
	o, pool := setup(t)
	enqueue(t, pool, `'a', queue => 'bulk'`)
	enqueue(t, pool, `'a', queue => 'bulk', protocol => 'grpc'`)
	row := func() string {
		return one[string](t, pool, "SELECT concat_ws(' ', strategy, admission, max_pending, max_running, rate, burst, pinned, description) FROM sched.queue WHERE name = 'bulk'")
	}
	rows, err := o.SetQueue(t.Context(), []string{"bulk"}, map[string]any{"strategy": "round_robin", "max_running": 5, "rate": 0.5, "burst": 3, "pinned": true, "description": "Bulk"})
	require.NoError(t, err)
	require.Len(t, rows, 1)
	require.Equal(t, "round_robin accept 5 0.5 3 t Bulk", row())
	_, err = o.SetQueue(t.Context(), []string{"bulk"}, map[string]any{"strategy": nil, "rate": nil, "admission": "delay", "max_pending": 7})
	require.NoError(t, err)
	require.Equal(t, "least_loaded delay 7 5 3 t Bulk", row())
	require.Equal(t, "least_loaded", one[string](t, pool, "SELECT strategy FROM sched.queue WHERE name <> 'bulk'"), "a derived queue has its own")
	_, err = o.SetQueue(t.Context(), []string{"bulk", "none"}, map[string]any{"max_running": 1})
	require.ErrorIs(t, err, ErrNotFound)
	require.Equal(t, "least_loaded delay 7 5 3 t Bulk", row())
}

func TestPauseAll(t *testing.T) {
	t.Parallel()
	o, pool := setup(t)
	enqueue(t, pool, `'a', queue => 'one'`)
	enqueue(t, pool, `'a', queue => 'two'`)
	paused := func() int64 {
		return one[int64](t, pool, "SELECT count(*) FROM sched.river_queue WHERE paused_at IS NOT NULL")
	}
	_, err := o.Pause(t.Context(), []string{"one"}, false)
	require.NoError(t, err)
	changes, err := o.PauseAll(t.Context())
	require.NoError(t, err)
	require.Equal(t, []bool{false, true}, []bool{changes[0].Changed, changes[1].Changed})
	require.EqualValues(t, 2, paused())
	changes, err = o.ResumeAll(t.Context())
	require.NoError(t, err)
	require.Len(t, changes, 2)
	require.Zero(t, paused())
}

func TestAssignments(t *testing.T) {
	t.Parallel()
	o, pool := setup(t)
	register(t, pool, "w-one", "state, hostname, slots", "'active', 'here', 5")
	exec(t, pool, `INSERT INTO sched.assignment (queue, worker_id, weight, reason, version) VALUES
		('bulk', 'w-one', 5, 'r', 1), ('bulk', 'w-two', 9, 'r', 2), ('bulk|x', 'w-one', 1, 'r', 3), ('mail', 'w-one', 2, 'r', 4)`)
	list := func(queues []string, worker string, limit int) []string {
		got, err := o.Assignments(t.Context(), queues, worker, limit)
		require.NoError(t, err)
		var texts []string
		for _, a := range got {
			texts = append(texts, a.Queue+" "+a.WorkerID+" "+a.Hostname)
		}
		return texts
	}
	require.Equal(t, []string{"bulk w-two ", "bulk w-one here", "bulk|x w-one here", "mail w-one here"}, list(nil, "", 10))
	require.Equal(t, []string{"bulk w-one here", "bulk|x w-one here"}, list([]string{"bulk"}, "w-one", 10))
	require.Len(t, list(nil, "", 2), 2)
}

func TestCanaries(t *testing.T) {
	t.Parallel()
	o, pool := setup(t)
	_, err := o.HoldCanary(t.Context(), "bulk", 5)
	require.ErrorIs(t, err, ErrNotFound)
	enqueue(t, pool, `'a', queue => 'bulk'`)

	c, err := o.HoldCanary(t.Context(), "bulk", 12.5)
	require.NoError(t, err)
	require.Equal(t, []string{"held", "12.5"}, []string{c.State, strconv.FormatFloat(c.Percent, 'f', -1, 64)})
	require.Equal(t, []float64{5, 15, 30, 50, 75, 100}, c.Steps)
	require.InDelta(t, 180, c.HoldSeconds, 0)

	limit := 1.5
	c, err = o.StartCanary(t.Context(), "bulk", CanaryRules{Steps: []float64{10, 100}, Hold: 5 * time.Second, MaxP95: 20 * time.Millisecond, AbortErrorPercent: &limit})
	require.NoError(t, err)
	require.Equal(t, "rising", c.State)
	require.InDelta(t, 12.5, c.Percent, 0, "it goes on from where it was held")
	require.Equal(t, []float64{10, 100}, c.Steps)
	require.Equal(t, "5 20 0.1 10 1.5", one[string](t, pool, "SELECT concat_ws(' ', extract(epoch FROM hold)::int, max_p95_ms, max_error_points, max_cpu_points, abort_error_percent) FROM sched.canary"))

	exec(t, pool, "UPDATE sched.canary SET state = 'full', percent = 100")
	c, err = o.StartCanary(t.Context(), "bulk", CanaryRules{})
	require.NoError(t, err)
	require.Zero(t, c.Percent, "from the beginning again")
	require.Equal(t, []float64{10, 100}, c.Steps, "rules stay")
	c, err = o.HoldCanary(t.Context(), "bulk", 0)
	require.NoError(t, err)
	require.Equal(t, "off", c.State)
	list, err := o.Canaries(t.Context(), "")
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.EqualValues(t, 5, one[int64](t, pool, "SELECT count(*) FROM sched.operator_action WHERE object_type = 'canary'"), "each step is an intervention")
}

func TestDecisions(t *testing.T) {
	t.Parallel()
	o, pool := setup(t)
	exec(t, pool, `INSERT INTO sched.decision (at, what, subject, who, from_value, to_value, reason, signals) VALUES
		(now() - interval '3 hours', 'pressure', 'bulk', 'w', 'green', 'red', 'full', '{"pending": 900}'),
		(now() - interval '1 hour', 'pressure', 'mail', 'w', 'green', 'yellow', 'load', '{}'), (now(), 'evict', 'bulk', 'w', NULL, NULL, 'r', '{}')`)
	list := func(f LogFilter, limit int) []string {
		got, err := o.Decisions(t.Context(), f, limit)
		require.NoError(t, err)
		var texts []string
		for _, d := range got {
			texts = append(texts, d.What+" "+d.Subject+" "+d.From+" "+d.To)
		}
		return texts
	}
	require.Equal(t, []string{"evict bulk  ", "pressure mail green yellow", "pressure bulk green red"}, list(LogFilter{}, 10))
	require.Equal(t, []string{"evict bulk  "}, list(LogFilter{Subject: "bulk"}, 1))
	require.Equal(t, []string{"pressure mail green yellow"}, list(LogFilter{What: "pressure", Since: time.Now().Add(-2 * time.Hour)}, 10))
	require.Equal(t, []string{"pressure bulk green red"}, list(LogFilter{Until: time.Now().Add(-2 * time.Hour)}, 10))
}

func TestInterventions(t *testing.T) {
	t.Parallel()
	o, pool := setup(t)
	for range 2 {
		enqueue(t, pool, `'a', queue => 'bulk'`)
	}
	exec(t, pool, "SELECT sched.cancel(id) FROM sched.task")
	exec(t, pool, "SELECT sched.retry(2)")
	exec(t, pool, "UPDATE sched.setting SET value = '7' WHERE key = 'max_pending'")
	list := func(f LogFilter) []string {
		got, err := o.Interventions(t.Context(), f, 10)
		require.NoError(t, err)
		var texts []string
		for _, i := range got {
			texts = append(texts, i.Action+" "+i.ObjectType+" "+i.Object)
		}
		return texts
	}
	all := []string{"update setting max_pending", "retry task 2", "cancel task 2", "cancel task 1"}
	require.Equal(t, all, list(LogFilter{}))
	require.Equal(t, all[1:3], list(LogFilter{Object: "2"}))
	require.Equal(t, all[3:], list(LogFilter{Object: "1"}))
	require.Equal(t, all[:1], list(LogFilter{ObjectType: "setting", User: one[string](t, pool, "SELECT session_user::text")}))
	require.Empty(t, list(LogFilter{Action: "drain"}))
}

// history is a fleet with five versions; the last three are kept whole.
func history(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	exec(t, pool, `INSERT INTO sched.topology_change (version, worker_id, at, what, before, after) VALUES
		(1, 'w-a', now() - interval '50 minutes', 'join', NULL, '{"slots": 1}'),
		(2, 'w-b', now() - interval '40 minutes', 'join', NULL, '{"slots": 2}'),
		(3, 'w-a', now() - interval '30 minutes', 'change', '{"slots": 1}', '{"slots": 10}'),
		(4, 'w-b', now() - interval '20 minutes', 'leave', '{"slots": 2}', NULL),
		(4, 'w-c', now() - interval '20 minutes', 'join', NULL, '{"slots": 3}'),
		(5, 'w-a', now() - interval '10 minutes', 'change', '{"slots": 10}', '{"slots": 20}')`)
	exec(t, pool, `INSERT INTO sched.topology_snapshot (version, taken_at, taken_at_ns, sha256, reason, topology)
		SELECT v, now(), 0, 'sha' || v, 'change', t::jsonb FROM (VALUES
			(3, '{"w-a": {"slots": 10}, "w-b": {"slots": 2}}'), (4, '{"w-a": {"slots": 10}, "w-c": {"slots": 3}}'), (5, '{"w-a": {"slots": 20}, "w-c": {"slots": 3}}')) AS s (v, t)`)
}

func TestTopologyAsOf(t *testing.T) {
	t.Parallel()
	o, pool := setup(t)
	empty, err := o.Topology(t.Context(), Moment{})
	require.NoError(t, err)
	require.Empty(t, empty.Workers)
	history(t, pool)
	at := func(m Moment) string {
		topology, err := o.Topology(t.Context(), m)
		require.NoError(t, err)
		text, err := json.Marshal(topology.Workers)
		require.NoError(t, err)
		return strconv.FormatInt(topology.Version, 10) + " " + string(text)
	}
	ago := func(minutes int) Moment { return Moment{Time: time.Now().Add(-time.Duration(minutes) * time.Minute)} }
	require.Equal(t, `5 {"w-a":{"slots":20},"w-c":{"slots":3}}`, at(Moment{}))
	for version, want := range map[int]string{
		1: `1 {"w-a":{"slots":1}}`, 2: `2 {"w-a":{"slots":1},"w-b":{"slots":2}}`, 3: `3 {"w-a":{"slots":10},"w-b":{"slots":2}}`,
		4: `4 {"w-a":{"slots":10},"w-c":{"slots":3}}`, 5: `5 {"w-a":{"slots":20},"w-c":{"slots":3}}`,
	} {
		require.Equal(t, want, at(Moment{Version: int64(version)}))
		require.Equal(t, want, at(ago(55-10*version)), "five minutes later it still holds")
	}
	require.Equal(t, "0 {}", at(ago(60)), "nobody had joined")

	head, err := o.Topology(t.Context(), Moment{Version: 4})
	require.NoError(t, err)
	require.Equal(t, "sha4 change", head.SHA256+" "+head.Reason)
	require.NotNil(t, head.Since)
	_, err = o.Topology(t.Context(), Moment{Version: 6})
	require.ErrorIs(t, err, ErrNotFound)
	require.ErrorContains(t, err, "the newest is 5")

	// With the snapshots gone but one, the log leads forward as well.
	exec(t, pool, "DELETE FROM sched.topology_snapshot WHERE version <> 3")
	exec(t, pool, "INSERT INTO sched.topology_snapshot VALUES (9, now(), 0, '', 'change', '{}')")
	require.Equal(t, `5 {"w-a":{"slots":20},"w-c":{"slots":3}}`, at(Moment{Version: 5}))

	// What is not kept is not made up.
	exec(t, pool, "DELETE FROM sched.topology_change WHERE version <= 2")
	require.Equal(t, `2 {"w-a":{"slots":1},"w-b":{"slots":2}}`, at(Moment{Version: 2}), "the change to 3 is undone")
	require.Equal(t, `2 {"w-a":{"slots":1},"w-b":{"slots":2}}`, at(ago(35)), "a change since would have been kept")
	for _, m := range []Moment{{Version: 1}, {Version: 7}, {Time: time.Now().AddDate(0, 0, -8)}} {
		_, err = o.Topology(t.Context(), m)
		require.ErrorIs(t, err, ErrNotFound)
		require.ErrorContains(t, err, "topology_keep_days")
	}
}

func TestTopologyDiff(t *testing.T) {
	t.Parallel()
	o, pool := setup(t)
	history(t, pool)
	a, b, changes, err := o.TopologyDiff(t.Context(), Moment{Version: 2}, Moment{})
	require.NoError(t, err)
	require.Equal(t, []int64{2, 5}, []int64{a.Version, b.Version})
	var texts []string
	for _, c := range changes {
		texts = append(texts, strings.Join([]string{c.What, c.WorkerID, string(c.Before), string(c.After)}, " "))
	}
	require.Equal(t, []string{`change w-a {"slots": 1} {"slots": 20}`, `leave w-b {"slots": 2} null`, `join w-c null {"slots": 3}`}, texts)
}

func TestFollowTopology(t *testing.T) {
	t.Parallel()
	o, pool := setup(t)
	history(t, pool)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	end := errors.New("seen enough")
	var seen []string
	err := o.FollowTopology(ctx, 4, func(c TopologyChange) error {
		seen = append(seen, c.What+" "+c.WorkerID)
		if len(seen) == 1 {
			exec(t, pool, "INSERT INTO sched.topology_change (version, worker_id, at, what, after) VALUES (6, 'w-d', now(), 'join', '{}')")
			exec(t, pool, "INSERT INTO sched.topology_snapshot VALUES (6, now(), 0, '', 'join', '{}')")
			exec(t, pool, "SELECT pg_notify('sched.topology', '6')")
		}
		if slices.Contains(seen, "join w-d") {
			return end
		}
		return nil
	})
	require.ErrorIs(t, err, end)
	require.Equal(t, []string{"change w-a", "join w-d"}, seen)
}
