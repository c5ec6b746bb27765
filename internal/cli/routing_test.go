package cli

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// leads makes the leader's word count.
func (f *fleet) leads() {
	f.t.Helper()
	f.exec("UPDATE sched.fleet SET computed_at = clock_timestamp() + interval '1 hour', leader = 'w-lead', workers = 1")
}

func TestQueuesTellOfRouting(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.enqueue("mail", "--queue=bulk", "--selector=gpu=a")
	f.exec("INSERT INTO sched.worker (id, client_id, state) VALUES ('w-one', 'c', 'active')")
	f.leads()
	name := f.text("SELECT name FROM sched.queue")
	require.Equal(t, "queue "+name+": admission reject, burst 9, max_running 5, rate 2.5, strategy round_robin\n",
		f.ok("queues", "set", name, "--max-running=5", "--rate=2.5", "--burst=9", "--admission=reject", "--strategy", "round_robin"))
	f.exec("UPDATE sched.queue SET pressure = 'red'")
	require.Regexp(t, `(?m)^bulk\|\S+ +open +red +1 .* 0  runs 5, 2.5/s, burst 9, reject, round_robin  gpu=a    nobody offers gpu=a$`, f.ok("queues"))
	object := f.objects("queues")[0]
	require.Equal(t, []any{"red", "gpu=a", 5.0}, []any{object["pressure"], object["unroutable"], object["max_running"]})

	require.Equal(t, "queue "+name+": max_running not set, pinned true, rate not set\n", f.ok("queues", "set", name, "--rate=none", "--max-running=none", "--pin"))
	require.Equal(t, "9 true", f.text("SELECT concat_ws(' ', max_running, rate, burst, pinned::text) FROM sched.queue"))
	object = f.objects("queues", "set", name, "--unpin")[0]
	require.Equal(t, false, object["pinned"])

	require.Equal(t, result{code: exitUsage, stderr: "sched: --rate 0: must be 0.001 to 1000000, or none\n"}, f.sched("queues", "set", name, "--rate=0"))
	require.Equal(t, result{code: exitUsage, stderr: "sched: --strategy lifo: must be least_loaded, round_robin, or none\n"}, f.sched("queues", "set", name, "--strategy=lifo"))
	require.Equal(t, result{code: exitUsage, stderr: "sched: --max-running x: must be a whole number, or none\n"}, f.sched("queues", "set", name, "--max-running=x"))
	require.Equal(t, exitUsage, f.sched("queues", "set", name).code)
	require.Equal(t, exitUsage, f.sched("queues", "set").code)
	require.Equal(t, exitNotFound, f.sched("queues", "set", "none", "--rate=1").code)
}

func TestPauseAllCommand(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.enqueue("mail", "--queue=a")
	f.enqueue("mail", "--queue=b")
	require.Equal(t, "queue a is paused\nqueue b is paused\n", f.ok("queues", "pause", "--all"))
	require.Regexp(t, `(?m)^a +paused `, f.ok("queues"))
	require.Equal(t, "queue a is open again\nqueue b is open again\n", f.ok("queues", "resume", "--all"))
	require.Equal(t, exitUsage, f.sched("queues", "pause").code)
	require.Equal(t, exitUsage, f.sched("queues", "pause", "--all", "a").code)
}

func TestPressureCommand(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.enqueue("mail", "--queue=bulk")
	f.enqueue("mail", "--queue=mail")
	got := f.sched("pressure")
	require.Equal(t, "no sidecar has led this fleet yet: nothing was measured\n", got.stderr)
	require.Regexp(t, `(?m)^the fleet  green +0 of 1,000 +0 % +0$`, got.stdout)
	f.leads()
	f.exec("UPDATE sched.queue SET pressure = 'red', pressure_reason = '950 of 1000 pending', pending = 950, load = 0.5, workers = 2 WHERE name = 'bulk'")
	got = f.sched("pressure")
	require.Empty(t, got.stderr)
	require.Regexp(t, `(?m)^bulk +red +950 of 1,000 +50 % +2  950 of 1000 pending$`, got.stdout)
	require.NotContains(t, got.stdout, "mail")
	require.Contains(t, f.ok("pressure", "--all"), "mail")
	require.Len(t, f.objects("pressure", "mail"), 1)
	require.Equal(t, exitNotFound, f.sched("pressure", "none").code)

	f.exec("UPDATE sched.fleet SET computed_at = now() - interval '1 minute'")
	require.Contains(t, f.sched("pressure").stderr, "no sidecar leads since 2")
}

func TestAssignmentsCommand(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	require.Contains(t, f.sched("assignments").stderr, "no such assignment")
	f.exec("INSERT INTO sched.worker (id, client_id, state, hostname, health, running, slots) VALUES ('w-one', 'c', 'active', 'here', 'strained', 2, 5)")
	f.exec("INSERT INTO sched.assignment (queue, worker_id, weight, reason, version) VALUES ('bulk', 'w-one', 3, 'labels match', 7), ('mail', 'w-two', 1, 'r', 7)")
	require.Regexp(t, `(?m)^bulk +w-one +here +3 +2 +5  strained +2\S+ \S+  labels match$`, f.ok("assignments"))
	require.Len(t, f.objects("assignments"), 2)
	require.Len(t, f.objects("assignments", "--queue=bulk", "--worker=w-one"), 1)
	require.Empty(t, f.objects("assignments", "--queue=bulk", "--worker=w-two"))
}

func TestCanaryCommand(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	require.Contains(t, f.sched("canary").stderr, "no canary")
	f.enqueue("mail", "--queue=bulk")
	require.Regexp(t, `(?m)^bulk +held +12.5 +0 +3m `, f.ok("canary", "set", "bulk", "12.5"))
	require.Regexp(t, `(?m)^bulk +rising +12.5 +0 +5.0s `, f.ok("canary", "start", "bulk", "--hold=5s", "--steps=20,100", "--max-error-points=0"))
	require.Equal(t, "{20,100} 0 10", f.text("SELECT concat_ws(' ', steps::text, max_error_points, max_cpu_points) FROM sched.canary"))
	object := f.objects("canary", "stop", "bulk")[0]
	require.Equal(t, []any{"off", 0.0}, []any{object["state"], object["percent"]})
	require.Regexp(t, `(?m)^bulk +off `, f.ok("canary", "list"))
	for _, args := range [][]string{
		{"set", "bulk", "101"},
		{"set", "bulk", "NaN"},
		{"set", "bulk"},
		{"start", "bulk", "--steps=5,5"},
		{"start", "bulk", "--hold=0s"},
		{"start", "bulk", "--abort-error-percent=101"},
		{"stop"},
	} {
		require.Equal(t, exitUsage, f.sched(append([]string{"canary"}, args...)...).code, args)
	}
	require.Equal(t, exitNotFound, f.sched("canary", "set", "none", "5").code)
}

func TestDecisionsCommand(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	require.Equal(t, "no such decision\n", f.sched("decisions").stderr)
	f.exec(`INSERT INTO sched.decision (at, what, subject, who, from_value, to_value, reason, signals) VALUES
		(now() - interval '2 hours', 'pressure', 'bulk', 'w-lead', 'green', 'red', 'full', '{"pending": 900}'), (now(), 'evict', 'w-one', 'w-lead', NULL, NULL, 'silent', '{}')`)
	require.Regexp(t, `(?m)^2\S+ \S+  pressure  bulk +green  red  full +w-lead$`, f.ok("decisions"))
	require.Len(t, f.objects("decisions", "--since=1h"), 1)
	require.Equal(t, map[string]any{"pending": 900.0}, f.objects("decisions", "--subject=bulk", "--what=pressure")[0]["signals"])
	require.Equal(t, exitUsage, f.sched("decisions", "--limit=0").code)
}

func TestActionsCommand(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	require.Equal(t, "no such intervention\n", f.sched("actions").stderr)
	id := f.enqueue("mail", "--queue=bulk")
	f.ok("queues", "pause", "bulk")
	f.ok("queues", "set", "bulk", "--max-running=5")
	f.ok("tasks", "cancel", id)
	got := f.ok("actions")
	require.Regexp(t, `(?m)^2\S+ \S+  \S+ \(sched\)  update  queue  bulk +max_running=- +max_running=5$`, got)
	require.Regexp(t, `(?m)^2\S+ \S+  \S+ \(sched\)  pause   queue  bulk `, got)
	require.Len(t, f.objects("actions", "--type=queue"), 2)
	require.Equal(t, "cancel", f.objects("actions", "--object="+id)[0]["action"])
	require.Empty(t, f.objects("actions", "--user=nobody"))
}

func (f *fleet) topology() {
	f.t.Helper()
	f.exec(`INSERT INTO sched.topology_change (version, worker_id, at, what, before, after) VALUES
		(1, 'w-one', now() - interval '2 hours', 'join', NULL, '{"hostname": "here", "slots": 5, "state": "active", "health": "good", "labels": {"gpu": "a"}, "protocols": ["http"], "queues": null}'),
		(2, 'w-one', now() - interval '1 hour', 'change', '{"hostname": "here", "slots": 5, "state": "active", "health": "good", "labels": {"gpu": "a"}, "protocols": ["http"], "queues": null}',
			'{"hostname": "here", "slots": 9, "state": "active", "health": "good", "labels": {"gpu": "a"}, "protocols": ["http"], "queues": ["mail"]}'),
		(2, 'w-two', now() - interval '1 hour', 'join', NULL, '{"hostname": "there"}')`)
	f.exec(`INSERT INTO sched.topology_snapshot (version, taken_at, taken_at_ns, sha256, reason, topology) VALUES
		(2, now(), 0, 'abcdef', 'join', '{"w-two": {"hostname": "there"}, "w-one": {"hostname": "here", "slots": 9, "state": "active", "health": "good", "labels": {"gpu": "a"}, "protocols": ["http"], "queues": ["mail"]}}')`)
}

func TestTopologyCommand(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	require.Equal(t, "topology 0: 0 workers\n", f.ok("topology"))
	f.topology()
	got := f.ok("topology")
	require.Regexp(t, `^topology 2: 2 workers, since 2\S+ \S+, sha256 abcdef\n`, got)
	require.Regexp(t, `(?m)^w-one +here +active +good +9 +0  http; queues mail  gpu=a$`, got)
	got = f.ok("topology", "--at=1")
	require.Regexp(t, `(?m)^w-one +here +active +good +5 +0  http +gpu=a$`, got)
	require.NotContains(t, got, "w-two")
	require.Equal(t, got, f.ok("topology", "--at=90m"))
	require.Equal(t, "topology 0: 0 workers\n", f.ok("topology", "--at=3h"))
	object := f.objects("topology", "--at=2")[0]
	require.InDelta(t, 2, object["version"], 0)
	require.Contains(t, object["workers"], "w-two")

	diff := f.ok("topology", "diff", "1")
	require.Regexp(t, `(?m)^2\S+ \S+  ~ w-one  queues null → \["mail"\], slots 5 → 9\n2\S+ \S+  \+ w-two  hostname=there$`, diff)
	require.Equal(t, diff, f.ok("topology", "diff", "1", "2"))
	require.Equal(t, "leave", f.objects("topology", "diff", "now", "1")[1]["what"])
	for _, args := range [][]string{{"--at=0"}, {"--at=soon"}, {"diff"}, {"diff", "1", "2", "3"}, {"--at=1", "--follow"}} {
		require.Equal(t, exitUsage, f.sched(append([]string{"topology"}, args...)...).code, args)
	}
	require.Equal(t, exitNotFound, f.sched("topology", "--at=3").code)
}

func TestTopologyFollow(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.topology()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	reader, writer := io.Pipe()
	defer reader.Close()
	cmd := schedCommand(f.environ())
	cmd.SetArgs([]string{"topology", "--follow"})
	cmd.SetOut(writer)
	cmd.SetErr(io.Discard)
	done := make(chan error, 1)
	go func() {
		done <- cmd.ExecuteContext(ctx)
		_ = writer.Close() // the reader sees its end
	}()
	var seen bytes.Buffer
	for part := make([]byte, 4096); !strings.Contains(seen.String(), "w-three"); {
		n, err := reader.Read(part)
		require.NoError(t, err, seen.String())
		seen.Write(part[:n])
		if strings.Count(seen.String(), "\n") == 4 { // all of what is there now
			f.exec(`WITH c AS (INSERT INTO sched.topology_change (version, worker_id, at, what, after) VALUES (3, 'w-three', now(), 'join', '{"slots": 2}'))
				INSERT INTO sched.topology_snapshot VALUES (3, now(), 0, '', 'join', '{}')`)
			f.exec("SELECT pg_notify('sched.topology', '3')")
		}
	}
	require.Regexp(t, `(?m)^2\S+ \S+  \+ w-three  slots=2$`, seen.String())
	cancel()
	go func() { _, _ = io.Copy(io.Discard, reader) }()
	require.ErrorIs(t, <-done, context.Canceled)
}
