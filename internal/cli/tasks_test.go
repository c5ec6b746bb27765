package cli

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTasksList(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	require.Equal(t, result{stderr: "no task matches\n"}, f.sched("tasks", "list"))
	first := f.enqueue("mail", `{"long": "`+strings.Repeat("x", 300)+`"}`)
	second := f.enqueue("image", "--in=2h")
	f.discard(first)

	got := f.sched("tasks", "list")
	require.Equal(t, exitOK, got.code)
	require.Empty(t, got.stderr)
	require.Regexp(t, `^ID  KIND   QUEUE    STATUS      TRY  STARTED +TOOK  WORKER  NOTE
 2  image  default  scheduled  0/25  - +-  -       due \d{4}-\d\d-\d\d \d\d:\d\d:\d\d
 1  mail   default  discarded  1/25  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d +0ms  w-one   no\x{fffd}\[31m luck at all
$`, got.stdout)

	got = f.sched("tasks", "list", "--limit=1")
	require.Equal(t, "there are more: add --after "+second+"\n", got.stderr)
	require.Contains(t, f.ok("tasks", "list", "--after", second), "mail")
	require.NotContains(t, f.ok("tasks", "list", "--since=1h", "--status=discarded,running"), "image")

	list := f.objects("tasks", "list", "--limit=0")
	require.Len(t, list, 2)
	require.Len(t, list[1]["args"].(map[string]any)["long"], 300, "nothing is cut")
	require.Equal(t, "no\x1b[31m luck\nat all", list[1]["error"])
	_, err := time.Parse(time.RFC3339, list[1]["start_time"].(string))
	require.NoError(t, err)

	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--status=done"}, `invalid status "done": use scheduled, `},
		{[]string{"--limit=-1"}, "--limit -1: "},
		{[]string{"--since=soon"}, `"soon" is no time`},
		{[]string{"--after=x"}, `invalid cursor "x"`},
		{[]string{"--since=1h", "--until=2h"}, "invalid time span"},
		{[]string{"5"}, "takes no arguments"},
	} {
		got := f.sched(append([]string{"tasks", "list"}, tt.args...)...)
		require.Equal(t, exitUsage, got.code, got.stderr)
		require.Contains(t, got.stderr, tt.want)
	}
}

// A list of all is read page by page.
func TestTasksListOfAll(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.exec(`SELECT sched.enqueue_many(jsonb_agg('{"kind": "mail"}'::jsonb)) FROM generate_series(1, $1::int)`, 2*listPage+1)
	require.Len(t, f.objects("tasks", "list", "--limit=0"), 2*listPage+1)
	require.Len(t, f.objects("tasks", "list", "--limit="+strconv.Itoa(listPage+5)), listPage+5)
}

func TestTasksGet(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	id := f.enqueue("mail", `{"to": 7}`, "--header=a=b", "--batch=night")
	f.discard(id)
	got := f.ok("tasks", "get", id)
	for _, want := range []string{
		"id        " + id + "\n", "status    discarded\n", "attempts  1 of 25\n", "args      {\"to\": 7}\n", "headers   a=b\n",
		" by postgres (sched)\n", "error     no\ufffd[31m luck\n          at all\n", "\nTRY  STARTED", "discarded  w-one",
	} {
		require.Contains(t, got, want)
	}
	require.NotContains(t, got, "\x1b")
	object := f.objects("tasks", "get", id)[0]
	require.Equal(t, "night", object["batch"])
	require.Len(t, object["attempts"].([]any), 1)

	require.Equal(t, result{code: exitNotFound, stderr: "sched: task 99: not found\n"}, f.sched("tasks", "get", "99"))
	require.Equal(t, exitUsage, f.sched("tasks", "get", "x").code)
	require.Equal(t, exitUsage, f.sched("tasks", "get").code)
}

func TestTasksChangeByID(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	id := f.enqueue("mail")
	require.Equal(t, "task "+id+": cancelled\n", f.ok("tasks", "cancel", id))
	require.Equal(t, "task "+id+": cancelled\n", f.ok("tasks", "cancel", id))
	require.Equal(t, "task "+id+": available, runs again now\n", f.ok("tasks", "retry", id))
	require.Equal(t, []map[string]any{{"id": 1.0, "action": "retry", "outcome": "done", "status": "available"}}, f.objects("tasks", "retry", id))

	require.Equal(t, result{
		code: exitNotFound, stdout: "task 98: there is no such task\ntask 99: there is no such task\n", stderr: "sched: 2 tasks: not found\n",
	}, f.sched("tasks", "cancel", "98", "99"))
	got := f.sched("tasks", "cancel", id, "99")
	require.Equal(t, exitFailed, got.code)
	require.Equal(t, "sched: 1 of 2 tasks could not be cancelled\n", got.stderr)
}

func TestTasksChangeByFilter(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	for range 3 {
		f.discard(f.enqueue("mail"))
	}
	f.discard(f.enqueue("image", "--unique-key=k"))
	f.enqueue("image", "--unique-key=k")

	const counted = "KIND   STATUS     TASKS\nimage  discarded      1\nmail   discarded      3\n4 tasks match\n"
	require.Equal(t, counted, f.ok("tasks", "retry", "--status=discarded", "--dry-run"))
	require.Equal(t, "4", f.text("SELECT count(*)::text FROM sched.task WHERE status = 'discarded'"), "nothing was changed")
	require.Equal(t, []map[string]any{
		{"action": "retry", "dry_run": true, "kind": "image", "status": "discarded", "count": 1.0},
		{"action": "retry", "dry_run": true, "kind": "mail", "status": "discarded", "count": 3.0},
	}, f.objects("tasks", "retry", "--since=1h", "--dry-run"))
	require.Contains(t, f.ok("tasks", "retry", "--kind=mail", "--limit=2", "--dry-run"), "2 tasks match, and more that the limit leaves out\n")

	got := f.sched("tasks", "retry", "--status=discarded")
	require.Equal(t, exitFailed, got.code)
	require.Equal(t, counted+"retried 3, 1 have a unique key that another unfinished task has\n", got.stdout)
	require.Contains(t, got.stderr, "sched: 1 of 4 tasks could not be retried\n")
	require.Regexp(t, `^task 4: retry: another unfinished task has the unique key of task 4; detail: `, got.stderr)

	changed := f.objects("tasks", "cancel", "--kind=mail")
	require.Len(t, changed, 3)
	require.Equal(t, map[string]any{"id": 1.0, "action": "cancel", "outcome": "done", "status": "cancelled"}, changed[0])
	require.Equal(t, result{stderr: "no task matches\n"}, f.sched("tasks", "cancel", "--kind=mail"))

	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"cancel"}, "needs ids, or a filter such as --status scheduled"},
		{[]string{"retry", "5", "--kind=mail"}, "takes ids or filters, not both"},
		{[]string{"retry", "5", "--dry-run"}, "--dry-run goes with filters"},
		{[]string{"retry", "--kind=mail", "--limit=0"}, "--limit 0: use 1 to "},
		{[]string{"retry", "--status=running"}, "retry applies to "},
		{[]string{"retry", "x"}, `"x" is no task id`},
	} {
		got := f.sched(append([]string{"tasks"}, tt.args...)...)
		require.Equal(t, exitUsage, got.code, got.stderr)
		require.Contains(t, got.stderr, tt.want)
	}
}
