package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func lines(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintf(&b, "{\"kind\": \"mail\", \"args\": %d}\n", i)
	}

	return b.String()
}

func TestEnqueueLines(t *testing.T) {
	t.Parallel()
	o, pool := setup(t)
	var progress []Taken
	text := "\xef\xbb\xbf" + lines(1, 3) + "\r\n  \n" + lines(4, 4) + `{"kind": "image", "run_at": "2099-01-31T12:00:00Z", "queue": null}`
	taken, err := o.EnqueueLines(t.Context(), strings.NewReader(text), Intake{
		Chunk:    2,
		Progress: func(t Taken) { progress = append(progress, t) },
		Defaults: map[string]any{"batch": "night", "kind": "other", "queue": "bulk"},
	})
	require.NoError(t, err)
	require.Equal(t, Taken{Tasks: 5, Lines: 7, Bytes: int64(len(text))}, taken)
	require.Equal(t, []int{2, 6, 7}, []int{progress[0].Lines, progress[1].Lines, progress[2].Lines}, "empty lines count as lines")
	require.Equal(t, taken, progress[2])
	require.Equal(t, "1:mail:available:bulk 2:mail:available:bulk 3:mail:available:bulk 4:mail:available:bulk {}:image:scheduled:default",
		one[string](t, pool, `SELECT string_agg(concat_ws(':', args, kind, status, queue), ' ' ORDER BY id) FROM sched.task WHERE batch = 'night'`))
}

func TestEnqueueLinesNone(t *testing.T) {
	t.Parallel()
	o, _ := setup(t)
	taken, err := o.EnqueueLines(t.Context(), strings.NewReader("\n\n"), Intake{})
	require.NoError(t, err)
	require.Zero(t, taken.Tasks)
}

// Whoever refuses a line, and wherever in a chunk it stands: all before it are in,
// and the error names it.
func TestEnqueueLinesRefused(t *testing.T) {
	t.Parallel()
	o, pool := setup(t)
	for _, tt := range []struct{ name, line, want string }{
		{"no JSON", "xx", "line 5: invalid: it is no JSON object"},
		{"cut off", `{"kind": "mail"`, "line 5: invalid: it is no JSON object: unexpected end of JSON input"},
		{"two objects", `{"kind": "mail"} {}`, "line 5: invalid: it is no JSON object: invalid character '{' after top-level value"},
		{"null", "null", "line 5: invalid: it is no JSON object"},
		{"array", `[{"kind": "mail"}]`, "line 5: invalid: it is a JSON array; write one object a line"},
		{"unknown key", `{"kind": "mail", "prio": 2}`, "line 5: it has an unknown key 'prio'; hint: known keys: kind, "},
		{"out of range", `{"kind": "mail", "priority": 9}`, "line 5: priority 9 is not between 1 and 4; hint: "},
		{"no kind", `{}`, "line 5: kind NULL is not a kind name; hint: "},
		{"NUL", `{"kind": "mail", "args": "\u0000"}`, "line 5: unsupported Unicode escape sequence; detail: "},
		{"number", `{"kind": "mail", "args": 1e999999}`, "line 5: value overflows numeric format"},
		{"too large", `{"kind": "mail", "args": "` + strings.Repeat("x", 1<<20) + `"}`, "line 5: args has 1048578 bytes of JSON text; at most 1048576 are allowed; hint: "},
	} {
		for chunk := 1; chunk <= 7; chunk += 2 {
			exec(t, pool, "DELETE FROM sched.river_job")
			taken, err := o.EnqueueLines(t.Context(), strings.NewReader(lines(1, 4)+tt.line+"\n"+lines(6, 9)), Intake{Chunk: chunk})
			var refused *LineError
			require.ErrorAs(t, err, &refused, tt.name)
			require.Equal(t, 5, refused.Line, tt.name)
			require.ErrorContains(t, err, tt.want, tt.name)
			require.NotContains(t, err.Error(), "counted from 0", tt.name)
			require.EqualValues(t, 4, taken.Tasks, tt.name)
			require.Equal(t, 4, taken.Lines, tt.name)
			require.Equal(t, 4, one[int](t, pool, "SELECT count(*)::int FROM sched.task"), tt.name)

			// The line mended, it goes on.
			taken, err = o.EnqueueLines(t.Context(), strings.NewReader(lines(1, 9)), Intake{Chunk: chunk, Skip: taken.Lines})
			require.NoError(t, err, tt.name)
			require.Equal(t, 9, taken.Lines, tt.name)
			require.Equal(t, "1 2 3 4 5 6 7 8 9", one[string](t, pool, "SELECT string_agg(args::text, ' ' ORDER BY id) FROM sched.task"), tt.name)
		}
	}
}

// More than the server takes in one call is nobody's line: the error says which
// lines are meant.
func TestEnqueueLinesTooMany(t *testing.T) {
	t.Parallel()
	o, pool := setup(t)
	exec(t, pool, "UPDATE sched.setting SET value = '3' WHERE key = 'max_enqueue_many'")
	taken, err := o.EnqueueLines(t.Context(), strings.NewReader(lines(1, 9)), Intake{Chunk: 5})
	require.ErrorContains(t, err, "lines 1 to 5: enqueue: 5 tasks in one call; at most 3 are allowed")
	require.Zero(t, taken.Lines)
}

// brokenReader gives some text and then fails.
type brokenReader struct {
	text io.Reader
	err  error
}

func (r *brokenReader) Read(p []byte) (int, error) {
	if n, err := r.text.Read(p); err == nil {
		return n, nil
	}

	return 0, r.err
}

func TestEnqueueLinesBrokenInput(t *testing.T) {
	t.Parallel()
	o, pool := setup(t)
	broken := errors.New("disk gone")
	taken, err := o.EnqueueLines(t.Context(), &brokenReader{strings.NewReader(lines(1, 3)), broken}, Intake{})
	require.ErrorIs(t, err, broken)
	require.Equal(t, 3, taken.Lines)
	require.Equal(t, 3, one[int](t, pool, "SELECT count(*)::int FROM sched.task"))
}

func TestEnqueueLinesStopped(t *testing.T) {
	t.Parallel()
	o, pool := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	taken, err := o.EnqueueLines(ctx, strings.NewReader(lines(1, 9)), Intake{Chunk: 2, Progress: func(t Taken) {
		if t.Lines == 4 {
			cancel()
		}
	}})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 4, taken.Lines)
	require.Equal(t, 4, one[int](t, pool, "SELECT count(*)::int FROM sched.task"))
}

// A connection that breaks before the commit leaves no doubt; one that breaks in
// it does, and the error says about which lines.
func TestEnqueueLinesConnectionLost(t *testing.T) {
	t.Parallel()
	for name, timing := range map[string]string{"before": "NOT DEFERRABLE", "during": "DEFERRABLE INITIALLY DEFERRED"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, pool := setup(t)
			// The third task ends its own connection, at once or at the commit.
			exec(t, pool, `CREATE FUNCTION public.suicide() RETURNS trigger LANGUAGE plpgsql AS $$
				BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(10); RETURN NULL; END $$`)
			exec(t, pool, `CREATE CONSTRAINT TRIGGER suicide AFTER INSERT ON sched.river_job `+timing+`
				FOR EACH ROW WHEN (NEW.args = '3') EXECUTE FUNCTION public.suicide()`)
			taken, err := o.EnqueueLines(t.Context(), strings.NewReader(lines(1, 4)), Intake{Chunk: 2})
			require.Error(t, err)
			require.Equal(t, 2, taken.Lines)
			var unsure *UnsureError
			require.Equal(t, name == "during", errors.As(err, &unsure), err.Error())
			if name == "during" {
				require.Equal(t, []int{3, 4}, []int{unsure.From, unsure.To})
				require.ErrorContains(t, err, "lines 3 to 4")
			}
		})
	}
}

func FuzzPrepareLine(f *testing.F) {
	f.Add(`{"kind": "mail"}`)
	f.Add(`{"a": 1e5, "a": null}`)
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.TrimSpace(text)
		if text == "" {
			return
		}
		plain, err := prepareLine([]byte(text), nil)
		filled, filledErr := prepareLine([]byte(text), map[string]any{"kind": "x"})
		require.Equal(t, err == nil, filledErr == nil)
		if err == nil {
			require.Equal(t, text, string(plain))
			require.Contains(t, string(filled), `"kind":`)
		}
	})
}

// An intake waits while a queue that it fills is red, whatever the queue's
// admission is, and goes on by itself.
func TestEnqueueLinesWaitsAtRed(t *testing.T) {
	t.Parallel()
	for _, admission := range []string{"accept", "delay", "reject"} {
		t.Run(admission, func(t *testing.T) {
			t.Parallel()
			o, pool := setup(t)
			exec(t, pool, "UPDATE sched.fleet SET computed_at = clock_timestamp() + interval '1 hour'")
			exec(t, pool, `INSERT INTO sched.queue (name, base, admission) VALUES ('post', 'post', $1)`, admission)
			exec(t, pool, "INSERT INTO sched.kind (kind, queue) VALUES ('mail', 'post')")
			const (
				red     = "UPDATE sched.queue SET pressure = 'red', pressure_reason = '950 of 1000 tasks wait'"
				drained = "UPDATE sched.queue SET pressure = 'yellow'"
			)
			var reasons []string
			taken, err := o.EnqueueLines(t.Context(), strings.NewReader(lines(1, 5)), Intake{
				Chunk: 2,
				Progress: func(taken Taken) {
					if taken.Tasks == 2 {
						exec(t, pool, red)
					}
				},
				Waiting: func(reason string) {
					reasons = append(reasons, reason)
					if reason != "" {
						require.Equal(t, 2, one[int](t, pool, "SELECT count(*)::int FROM sched.task"), "nothing more while it is red")
						exec(t, pool, drained)
					}
				},
			})
			require.NoError(t, err)
			require.EqualValues(t, 5, taken.Tasks)
			require.Len(t, reasons, 2)
			require.Contains(t, reasons[0], "queue post is red: 950 of 1000 tasks wait")
			require.Empty(t, reasons[1], "it goes on")
			require.Equal(t, 5, one[int](t, pool, "SELECT count(*)::int FROM sched.task"))
		})
	}
}

func TestEnqueueLinesWithoutWaiting(t *testing.T) {
	t.Parallel()
	o, pool := setup(t)
	exec(t, pool, "UPDATE sched.fleet SET computed_at = clock_timestamp() + interval '1 hour'")
	exec(t, pool, "INSERT INTO sched.queue (name, base, pressure) VALUES ('default', 'default', 'red')")
	taken, err := o.EnqueueLines(t.Context(), strings.NewReader(lines(1, 3)), Intake{NoWait: true})
	require.NoError(t, err)
	require.EqualValues(t, 3, taken.Tasks)
	exec(t, pool, "UPDATE sched.queue SET admission = 'reject'")
	_, err = o.EnqueueLines(t.Context(), strings.NewReader(lines(1, 3)), Intake{NoWait: true})
	require.ErrorContains(t, err, "SC429")
	require.ErrorContains(t, err, "retry after 2 seconds")
}

// A wait ends with whoever stops the intake; a red queue that it doesn't fill
// holds nothing up, and neither does one while nobody leads.
func TestEnqueueLinesWaitsForNothingElse(t *testing.T) {
	t.Parallel()
	o, pool := setup(t)
	exec(t, pool, "UPDATE sched.fleet SET computed_at = clock_timestamp() + interval '1 hour'")
	exec(t, pool, "INSERT INTO sched.queue (name, base, pressure) VALUES ('other', 'other', 'red')")
	waits := Intake{Waiting: func(reason string) { require.Empty(t, reason) }}
	_, err := o.EnqueueLines(t.Context(), strings.NewReader(lines(1, 3)), waits)
	require.NoError(t, err)

	stopped, stop := context.WithCancel(t.Context())
	taken, err := o.EnqueueLines(stopped, strings.NewReader(lines(1, 3)), Intake{
		Defaults: map[string]any{"queue": "other"}, Waiting: func(string) { stop() },
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, taken.Tasks)

	o, pool = setup(t)
	exec(t, pool, "UPDATE sched.fleet SET computed_at = clock_timestamp() - interval '6 seconds'")
	exec(t, pool, "INSERT INTO sched.queue (name, base, pressure) VALUES ('default', 'default', 'red')")
	_, err = o.EnqueueLines(t.Context(), strings.NewReader(lines(1, 3)), waits)
	require.NoError(t, err)
}
