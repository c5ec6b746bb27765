package cli

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEnqueue(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	id := f.enqueue("mail", `{"to": 7}`, "--queue=bulk", "--priority=2", "--selector=gpu=a100", "--selector=zone=b", "--protocol=http",
		"--unique-key=k", "--max-attempts=3", "--timeout=1m30s", "--batch=night", "--header=note=a,b=c", "--in=1d")
	require.Equal(t, `mail {"to": 7} bulk 2 {"gpu": "a100", "zone": "b"} http k 3 00:01:30 night {"note": "a,b=c"} scheduled sched`,
		f.text(`SELECT concat_ws(' ', kind, args, split_part(queue, '|', 1), priority, selector, protocol, unique_key, max_attempts, timeout, batch, headers, status, enqueued_app)
			FROM sched.task WHERE id = $1::text::bigint`, id))
	require.Equal(t, id, f.enqueue("mail", "--unique-key=k"), "the task that has the key")

	object := f.objects("enqueue", "mail", "--run-at", "2099-01-31T12:00:00+02:00")
	require.Equal(t, "2099-01-31 10:00:00", f.text("SELECT (run_at AT TIME ZONE 'UTC')::text FROM sched.task WHERE id = $1::text::bigint",
		strconv.Itoa(int(object[0]["id"].(float64)))))
}

func TestEnqueueUsage(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "enqueue: needs a kind, or --file"},
		{[]string{"mail", "{}", "{}"}, "takes a kind and its args in one piece of JSON"},
		{[]string{"mail", "{a: 1}"}, "are no JSON; quote them"},
		{[]string{"mail", "--in=1h", "--run-at=2030-01-01"}, "takes --run-at or --in, not both"},
		{[]string{"mail", "--run-at=noon"}, "--run-at: \"noon\" is no time"},
		{[]string{"mail", "--in=soon"}, "is no length of time"},
		{[]string{"mail", "--selector=gpu"}, "is no key=value"},
		{[]string{"mail", "--skip=1"}, "--skip, --chunk and --no-wait go with --file"},
		{[]string{"--file=-", "mail", "{}"}, "with --file the args come from the lines"},
		{[]string{"--file=-", "--unique-key=k"}, "--unique-key would make all lines one task"},
		{[]string{"--file=-", "--chunk=0"}, "--chunk 0: use 1 to 100000"},
		{[]string{"--file=/nowhere/tasks.jsonl"}, "--file: open /nowhere/tasks.jsonl"},
		{[]string{"mail", "--priority=9"}, "priority 9 is not between 1 and 4; hint: "},
		{[]string{"bad kind"}, "kind 'bad kind' is not a kind name; hint: "},
	} {
		got := f.sched(append([]string{"enqueue"}, tt.args...)...)
		require.Equal(t, exitUsage, got.code, "%q: %s", tt.args, got.stderr)
		require.Contains(t, got.stderr, tt.want)
		require.Empty(t, got.stdout)
	}
	require.Equal(t, "0", f.text("SELECT count(*)::text FROM sched.task"))
}

func TestEnqueueFile(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	file := filepath.Join(t.TempDir(), "tasks.jsonl")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	write(`{"args": 1}` + "\n" + `{"args": 2, "queue": "own", "timeout": "1 hour"}` + "\n" + `{"kind": "image", "priority": 0}` + "\n")

	got := f.sched("enqueue", "--file", file, "mail", "--queue=bulk", "--in=2h", "--timeout=90s", "--header=a=b")
	require.Equal(t, exitFailed, got.code)
	require.Empty(t, got.stdout)
	require.Equal(t, "enqueued 2 tasks: lines 1 to 2 are in; go on with --skip 2\n"+
		"sched: line 3: priority 0 is not between 1 and 4; hint: 1 starts first, 4 last; leave priority out for 1 (SQLSTATE 22023)\n", got.stderr)
	require.Equal(t, `1 mail bulk scheduled 00:01:30 {"a": "b"}, 2 mail own scheduled 01:00:00 {"a": "b"}`,
		f.text(`SELECT string_agg(concat_ws(' ', args, kind, queue, status, timeout, headers), ', ' ORDER BY id) FROM sched.task`))
	require.Equal(t, "true", f.text("SELECT (abs(extract(epoch FROM run_at - now()) - 7200) < 60)::text FROM sched.task LIMIT 1"))

	write("\n\n" + `{"kind": "image", "priority": 1}` + "\n")
	require.Equal(t, "enqueued 1 task\n", f.ok("enqueue", "--file", file, "--skip=2"))
	object := f.objects("enqueue", "--file", file, "--skip=3")
	require.Equal(t, []map[string]any{{"tasks": 0.0, "lines": 3.0}}, object)

	write("nonsense\n")
	got = f.sched("enqueue", "--file", file, "--json")
	require.Equal(t, exitFailed, got.code)
	require.JSONEq(t, `{"tasks": 0, "lines": 0}`, got.stdout)
	require.Contains(t, got.stderr, "nothing was enqueued\nsched: line 1: ")
}

// A command that waits for more input ends when it is asked to, and says how far it
// got.
func TestEnqueueStopped(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	in, feed := io.Pipe()
	signals := make(chan os.Signal, 1)
	var stdout, stderr strings.Builder
	p := Process{
		Args: []string{"enqueue", "--file=-", "--chunk=2"}, Stdin: in, Stdout: &stdout, Stderr: &stderr,
		Signals: signals, Exit: func(int) {},
	}
	code := make(chan int)
	go func() { code <- p.execute(schedCommand(f.environ())) }()
	_, err := io.WriteString(feed, strings.Repeat(`{"kind": "mail"}`+"\n", 3))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return f.text("SELECT count(*)::text FROM sched.task") == "2" }, time.Minute, 10*time.Millisecond)
	signals <- syscall.SIGINT
	require.Equal(t, 130, <-code)
	require.Equal(t, "enqueued 2 tasks: lines 1 to 2 are in; go on with --skip 2\nsched: stopped before it was done: got SIGINT\n", stderr.String())
	require.NoError(t, feed.Close())
}

func TestEnqueueStoppedBeforeAnyLine(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	in, feed := io.Pipe()
	signals := make(chan os.Signal, 1)
	var stdout, stderr strings.Builder
	p := Process{
		Args: []string{"enqueue", "--file=-"}, Stdin: in, Stdout: &stdout, Stderr: &stderr,
		Signals: signals, Exit: func(int) {},
	}
	code := make(chan int)
	go func() { code <- p.execute(schedCommand(f.environ())) }()
	_, err := io.WriteString(feed, "\n") // it reads
	require.NoError(t, err)
	signals <- syscall.SIGINT
	require.Equal(t, 130, <-code)
	require.Equal(t, "nothing was enqueued\nsched: stopped before it was done: got SIGINT\n", stderr.String())
	require.NoError(t, feed.Close())
}

// A red queue holds a file up, says so, and lets it go on; --no-wait doesn't ask.
func TestEnqueueFileWaitsAtRed(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	file := filepath.Join(t.TempDir(), "tasks.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(`{"kind": "mail"}`+"\n"), 0o600))
	f.exec("UPDATE sched.fleet SET computed_at = now() + interval '1 hour'")
	f.exec("INSERT INTO sched.queue (name, base, pressure, pressure_reason) VALUES ('default', 'default', 'red', '950 of 1000 tasks wait')")
	require.Equal(t, "enqueued 1 task\n", f.ok("enqueue", "--file", file, "--no-wait"))

	got := make(chan result)
	go func() { got <- f.sched("enqueue", "--file", file) }()
	// It asked, and got its answer, before the queue drains.
	require.Eventually(t, func() bool {
		return f.text("SELECT (count(*) > 0)::text FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle' AND query LIKE '%pressure_of_tasks%' AND pid <> pg_backend_pid()") == "true"
	}, time.Minute, 10*time.Millisecond)
	require.Equal(t, "1", f.text("SELECT count(*)::text FROM sched.task"))
	f.exec("UPDATE sched.queue SET pressure = 'yellow'")
	done := <-got
	require.Equal(t, exitOK, done.code)
	require.Equal(t, "enqueued 1 task\n", done.stdout)
	require.Equal(t, "waiting for it to drain (--no-wait does not): queue default is red: 950 of 1000 tasks wait\ngoing on\n", done.stderr)
}
