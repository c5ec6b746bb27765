package cli

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

// fleet is a database and the command line on it.
type fleet struct {
	t    *testing.T
	pool *pgxpool.Pool
}

func newFleet(t *testing.T) *fleet {
	t.Helper()

	return &fleet{t: t, pool: pgtest.New(t)}
}

func (f *fleet) environ() []string { return []string{"DATABASE_URL=" + pgtest.DSN(f.pool)} }

// sched runs a command.
func (f *fleet) sched(args ...string) result {
	return runs(schedCommand(f.environ()), nil, args...)
}

// ok runs a command that must succeed, and returns its answer.
func (f *fleet) ok(args ...string) string {
	f.t.Helper()
	got := f.sched(args...)
	require.Equal(f.t, exitOK, got.code, "%q: %s", args, got.stderr)

	return got.stdout
}

// objects runs a command with --json and returns the objects of its lines.
func (f *fleet) objects(args ...string) []map[string]any {
	f.t.Helper()
	var list []map[string]any
	out := f.ok(append(args, "--json")...)
	for line := range strings.Lines(out) {
		var object map[string]any
		require.NoError(f.t, json.Unmarshal([]byte(line), &object), line)
		list = append(list, object)
	}

	return list
}

func (f *fleet) exec(sql string, args ...any) {
	f.t.Helper()
	_, err := f.pool.Exec(f.t.Context(), sql, args...)
	require.NoError(f.t, err)
}

func (f *fleet) text(sql string, args ...any) string {
	f.t.Helper()
	var text string
	require.NoError(f.t, f.pool.QueryRow(f.t.Context(), sql, args...).Scan(&text))

	return text
}

// discard makes a task look as if it had failed for good.
func (f *fleet) discard(id string) {
	f.t.Helper()
	f.exec(`UPDATE sched.river_job SET state = 'discarded', attempt = 1, attempted_at = now(), finalized_at = now(), attempted_by = '{w-one}',
		errors = ARRAY[$2::jsonb] WHERE id = $1::text::bigint`, id, `{"attempt": 1, "error": "no\u001b[31m luck\nat all"}`)
}

func (f *fleet) enqueue(args ...string) string {
	f.t.Helper()

	return strings.TrimSpace(f.ok(append([]string{"enqueue"}, args...)...))
}

func TestExplain(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	id := f.enqueue("mail", "--in=2h")
	got := f.ok("explain", id)
	require.Regexp(t, `^Task `+id+` of kind mail is scheduled .*\n`, got)
	// In the reader's own zone.
	require.Contains(t, got, time.Now().Add(2*time.Hour).Format("2006-01-02 "))
	object := f.objects("explain", id)[0]
	require.InDelta(t, 1, object["id"], 0)
	require.Len(t, object["lines"], strings.Count(got, "\n"))
	require.Equal(t, exitNotFound, f.sched("explain", "99").code)
}

func TestWorkersCommand(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	require.Equal(t, result{stderr: "no worker is registered: start sched-sidecar beside an app\n"}, f.sched("workers"))
	f.exec(`INSERT INTO sched.worker (id, client_id, hostname, app_url, state, labels, queues, running, slots, ceiling, heartbeat_at, ended_at, reason) VALUES
		('w-one', 'c', 'alpha', 'http://app', 'active', '{"gpu": "a"}', '{mail}', 2, 8, 64, now(), NULL, 'started'),
		('w-two', 'c', 'beta', '', 'active', '{}', NULL, 0, 0, 0, now() - interval '1 hour', NULL, 'started'),
		('w-old', 'c', 'beta', '', 'evicted', '{}', NULL, 0, 0, 0, now(), now(), 'no heartbeat')`)
	got := f.ok("workers")
	require.Regexp(t, `(?m)^w-one  alpha  http://app  active     2      8       64 .* queues mail; gpu=a$`, got)
	require.Regexp(t, `(?m)^w-two .* silent: crashed or cut off$`, got)
	require.NotContains(t, got, "w-old")
	require.Contains(t, f.ok("workers", "list", "--all"), "no heartbeat")
	f.exec("UPDATE sched.worker SET skipped_kinds = '{image,mail}' WHERE id = 'w-one'")
	require.Regexp(t, `(?m)^w-one .* its app lacks image, mail$`, f.ok("workers"))
	list := f.objects("workers", "list")
	require.Len(t, list, 2)
	require.Equal(t, map[string]any{"gpu": "a"}, list[0]["labels"])
	require.Equal(t, true, list[0]["alive"])

	require.Equal(t, "worker w-one is draining and runs 2 tasks\n", f.ok("workers", "drain", "w-one"))
	require.Equal(t, []map[string]any{{"id": "w-one", "state": "draining", "running": 2.0}}, f.objects("workers", "drain", "w-one"))
	require.Equal(t, result{code: exitFailed, stderr: "sched: worker w-old has ended before: it is evicted\n"}, f.sched("workers", "drain", "w-old"))
	require.Equal(t, exitNotFound, f.sched("workers", "drain", "w-none").code)
	require.Equal(t, exitUsage, f.sched("workers", "drain").code)
	require.Equal(t, "sched: workers: there is no command \"drains\"; did you mean drain?\n", f.sched("workers", "drains").stderr)
}

func TestQueuesCommand(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	require.Equal(t, result{stderr: "no queue yet: the first task makes one\n"}, f.sched("queues"))
	f.enqueue("mail", "--queue=bulk")
	f.enqueue("mail", "--queue=bulk", "--selector=gpu=a", "--protocol=grpc")
	f.enqueue("mail", "--queue=bulk")

	got := f.ok("queues", "--count-to=1")
	require.Regexp(t, `(?m)^bulk +open +green +1\+ +[0-9.]+m?s +0 +0 +0 +0$`, got)
	require.Regexp(t, `(?m)^bulk\|[0-9a-f]{12} +open +green +1\+ .* gpu=a, grpc$`, got)
	require.InDelta(t, 2, f.objects("queues", "list", "bulk")[0]["available"], 0)
	require.Contains(t, f.sched("queues", "--limit=1").stderr, "there may be more: add --after 'bulk'")

	require.Regexp(t, `^queue bulk is paused\nqueue bulk\|\w+ is paused\n$`, f.ok("queues", "pause", "bulk"))
	require.Regexp(t, `^queue bulk was paused before, at \d{4}-`, f.ok("queues", "pause", "bulk", "--exact"))
	require.Regexp(t, `(?m)^bulk +paused [0-9.]+m?s `, f.ok("queues"))
	require.Equal(t, []map[string]any{{"name": "bulk", "paused": false, "paused_at": nil, "changed": true}}, f.objects("queues", "resume", "bulk", "--exact"))
	require.Regexp(t, `^queue bulk was not paused\nqueue bulk\|\w+ is open again\n$`, f.ok("queues", "resume", "bulk"))

	for _, args := range [][]string{{"pause", "nope"}, {"resume", "nope"}, {"list", "nope"}} {
		got := f.sched(append([]string{"queues"}, args...)...)
		require.Equal(t, exitNotFound, got.code)
		require.Contains(t, got.stderr, "queue nope: not found")
	}
	for _, args := range [][]string{{"pause"}, {"--limit=0"}, {"--count-to=0"}, {"stop"}} {
		require.Equal(t, exitUsage, f.sched(append([]string{"queues"}, args...)...).code, "%q", args)
	}
}

func TestBatchesCommand(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	require.Equal(t, result{stderr: "no task belongs to a batch\n"}, f.sched("batches"))
	f.discard(f.enqueue("mail", "--batch=night"))
	f.enqueue("mail", "--batch=night", "--in=1h")
	f.enqueue("mail", "--batch=other")

	require.Regexp(t, `(?m)^night  50 %      2     1    0          0          1  \d{4}-`, f.ok("batches"))
	got := f.sched("batches", "--limit=1")
	require.Equal(t, "there may be more: add --after 'night'\n", got.stderr)
	require.Equal(t, "other", f.objects("batches", "list", "--after=night")[0]["batch"])
	require.Regexp(t, `^batch      night\ndone       50 %, 1 of 2 tasks\nscheduled  1\ndiscarded  1\nfirst      \d{4}-.*\nlast end   \d{4}-.*\n$`, f.ok("batches", "get", "night"))
	require.InDelta(t, 0.5, f.objects("batches", "get", "night")[0]["progress"], 0)
	require.Equal(t, exitNotFound, f.sched("batches", "get", "nope").code)
}

// Without a schema each command says what to do.
func TestOperateWithoutSchema(t *testing.T) {
	t.Parallel()
	f := &fleet{t: t, pool: pgtest.Empty(t)}
	for _, args := range [][]string{
		{"enqueue", "mail"},
		{"enqueue", "--file", os.DevNull},
		{"tasks", "list"},
		{"tasks", "retry", "7"},
		{"tasks", "cancel", "--kind=mail"},
		{"explain", "7"},
		{"workers"},
		{"workers", "drain", "w"},
		{"queues"},
		{"queues", "pause", "q"},
		{"batches"},
	} {
		got := f.sched(args...)
		if args[len(args)-1] == os.DevNull {
			require.Equal(t, "enqueued 0 tasks\n", got.stdout, "no task, no statement")

			continue
		}
		require.Equal(t, exitFailed, got.code, "%q", args)
		require.Contains(t, got.stderr, "run 'sched migrate up' on this database", "%q", args)
	}
}

func TestOperateWithoutDatabase(t *testing.T) {
	t.Parallel()
	got := runs(schedCommand([]string{"SCHED_DATABASE_URL=postgres://u:hunter2@127.0.0.1:1/d?sslmode=disable"}), nil, "tasks", "list")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.stderr, "127.0.0.1:1")
	require.NotContains(t, got.stderr, "hunter2")

	got = runs(schedCommand(nil), nil, "queues", "--dsn=postgres://u:hunter2@h:port/d")
	require.Equal(t, exitUsage, got.code)
	require.NotContains(t, got.stderr, "hunter2")
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	for shell, want := range map[string]string{"bash": "complete -o default -F __start_sched sched", "zsh": "#compdef sched", "fish": "complete -c sched"} {
		got := runs(schedCommand(nil), nil, "completion", shell)
		require.Equal(t, exitOK, got.code)
		require.Contains(t, got.stdout, want)
		require.Empty(t, got.stderr)
	}
	require.Equal(t, exitUsage, runs(schedCommand(nil), nil, "completion", "tcsh").code)

	got := runs(schedCommand(nil), nil, "__complete", "tasks", "list", "--status", "dis")
	require.Contains(t, got.stdout, "discarded\n")
	got = runs(schedCommand(nil), nil, "__complete", "queues", "")
	require.Contains(t, got.stdout, "pause\t")
}

func TestVersionsAsJSON(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	require.Equal(t, "sched", f.objects("version")[0]["program"])
	require.Equal(t, f.objects("migrate", "version")[0]["latest"], f.objects("migrate", "version")[0]["current"])
	list := f.objects("migrate", "status")
	require.Equal(t, true, list[0]["applied"])
	_, err := time.Parse(time.RFC3339, list[0]["applied_at"].(string))
	require.NoError(t, err)
}
