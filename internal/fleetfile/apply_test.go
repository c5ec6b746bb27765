package fleetfile

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

func exec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	_, err := pool.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

func all[T any](t *testing.T, pool *pgxpool.Pool, sql string, args ...any) []T {
	t.Helper()
	rows, err := pool.Query(t.Context(), sql, args...)
	require.NoError(t, err)
	values, err := pgx.CollectRows(rows, pgx.RowTo[T])
	require.NoError(t, err)
	return values
}

func applied(t *testing.T, pool *pgxpool.Pool, text string, opts Options) []move {
	t.Helper()
	file := parsed(t, text)
	planned, err := Plan(t.Context(), pool, file, opts)
	require.NoError(t, err)
	changes, err := Apply(t.Context(), pool, file, opts)
	require.NoError(t, err)
	require.Equal(t, moves(planned), moves(changes), "a plan is what an apply does")
	return moves(changes)
}

const kindRow = `SELECT concat_ws(' ', kind, description, queue, selector, protocol, priority, timeout, max_attempts, retry_base, retry_factor, retry_cap, retry_jitter)
	FROM sched.kind ORDER BY kind COLLATE "C"`

func TestApply(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	require.Len(t, applied(t, pool, whole, Options{}), 2+3+4)
	require.Empty(t, applied(t, pool, whole, Options{Prune: true}), "again: nothing to do")

	require.Equal(t, []string{
		"bare", `ns/Render:v1+x {"gpu": "a100"} any`, `other {"gpu": "a100"}`, "send_mail two\nlines mail 2 00:01:30 10 00:00:00.5 1.5 01:00:00 0",
	}, all[string](t, pool, kindRow))
	require.Equal(t, []string{"max_args_bytes 65536", "max_enqueue_many 100000", "notify false"}, all[string](t, pool, "SELECT key || ' ' || value FROM sched.setting WHERE key IN ('notify', 'max_args_bytes', 'max_enqueue_many') ORDER BY key"))
	require.ElementsMatch(t, []string{"mail any Mails to customers", "mail http -", "render grpc -"}, all[string](t, pool, "SELECT base || ' ' || protocol || ' ' || coalesce(description, '-') FROM sched.queue"))
	require.Len(t, all[string](t, pool, "SELECT name FROM sched.river_queue"), 3, "River UI shows them")
	exec(t, pool, "SELECT sched.enqueue('send_mail')")
	require.Equal(t, []int{2}, all[int](t, pool, "SELECT priority FROM sched.task"), "it is live")

	// Less in the file: not set any more, and kept unless pruned.
	require.Equal(t, []move{
		{Extra, "setting max_args_bytes", []FieldChange{{"value", int64(65536), int64(1 << 20)}}},
		{Extra, "setting notify", []FieldChange{{"value", false, true}}},
		{Alter, "queue mail", []FieldChange{{"description", "Mails to customers", nil}}},
		{Alter, "kind send_mail", []FieldChange{
			{"description", "two\nlines", nil},
			{"queue", "mail", nil},
			{"timeout", 90 * time.Second, 2 * time.Minute},
			{"max_attempts", int64(10), nil},
			{"retry_base", 500 * time.Millisecond, nil},
			{"retry_factor", 1.5, nil},
			{"retry_cap", time.Hour, nil},
			{"retry_jitter", 0.0, nil},
		}},
		{Extra, "kind bare", nil},
		{Extra, "kind ns/Render:v1+x", []FieldChange{{"selector", map[string]string{"gpu": "a100"}, nil}, {"protocol", "any", nil}}},
		{Extra, "kind other", []FieldChange{{"selector", map[string]string{"gpu": "a100"}, nil}}},
	}, applied(t, pool, "settings:\nqueues: [{name: mail}]\nkinds: {send_mail: {priority: 2, timeout: 2m}}", Options{}))
	require.Len(t, all[string](t, pool, kindRow), 4)
	require.Len(t, applied(t, pool, "settings:\nqueues: [{name: mail}]\nkinds: {send_mail: {priority: 2, timeout: 2m}}", Options{Prune: true}), 5)
	require.Equal(t, []string{"send_mail 2 00:02:00"}, all[string](t, pool, kindRow))
	require.Equal(t, []string{"true", "1048576"}, all[string](t, pool, "SELECT value::text FROM sched.setting WHERE key IN ('notify', 'max_args_bytes') ORDER BY key DESC"))
	require.Len(t, all[string](t, pool, "SELECT name FROM sched.queue"), 3, "what holds tasks isn't taken away")
}

func TestApplyLeavesPinnedRowsAlone(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	applied(t, pool, whole, Options{})
	for _, table := range []string{"kind", "queue", "setting"} {
		exec(t, pool, "UPDATE sched."+table+" SET pinned = true")
	}
	before, err := Read(t.Context(), pool)
	require.NoError(t, err)
	for _, text := range []string{
		"settings: {notify: true}\nqueues: [{name: mail, description: other}]\nkinds: {send_mail: {priority: 1}, new: {}}", "settings:\nqueues:\nkinds:\n",
	} {
		for _, opts := range []Options{{}, {Prune: true}} {
			for _, m := range applied(t, pool, text, opts) {
				require.True(t, m.action == Pinned || m.action == Extra && !opts.Prune || m.name == "kind new", "%s %s", m.action, m.name)
			}
		}
	}
	exec(t, pool, "DELETE FROM sched.kind WHERE kind = 'new'")
	after, err := Read(t.Context(), pool)
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.Equal(t, all[string](t, pool, "SELECT session_user::text")[0], after[Kinds][0].By, "whoever pinned it is told")
}

func TestPlanChangesNothing(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	before, err := Read(t.Context(), pool)
	require.NoError(t, err)
	changes, err := Plan(t.Context(), pool, parsed(t, whole), Options{Prune: true})
	require.NoError(t, err)
	require.Len(t, changes, 9)
	after, err := Read(t.Context(), pool)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

func TestApplyIsAllOrNothing(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	// What no file can say, and the database refuses.
	exec(t, pool, "ALTER TABLE sched.kind ADD CHECK (kind <> 'last')")
	_, err := Apply(t.Context(), pool, parsed(t, whole+"  last: {}\n"), Options{})
	require.ErrorContains(t, err, "kind last: ")
	require.Empty(t, all[string](t, pool, "SELECT kind FROM sched.kind"))
	require.Empty(t, all[string](t, pool, "SELECT name FROM sched.queue"))
	require.Equal(t, []string{"true"}, all[string](t, pool, "SELECT value::text FROM sched.setting WHERE key = 'notify'"))
}

// Of two at once one waits, and none fails or does half.
func TestAppliesAtOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	var wg sync.WaitGroup
	errs := make([]error, 6)
	for i := range errs {
		file := parsed(t, fmt.Sprintf("settings: {max_args_bytes: %d}\nqueues: [{name: q, description: d%[1]d}, {name: new%[1]d}]\nkinds: {k: {priority: %d, timeout: %[1]ds}}", 8192+i, i%4+1))
		wg.Go(func() { _, errs[i] = Apply(context.WithoutCancel(t.Context()), pool, file, Options{Prune: true}) })
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	require.Equal(t, []bool{true}, all[bool](t, pool, `SELECT s.value::text = extract(epoch FROM k.timeout)::int::text AND q.description = 'd' || s.value::text
		FROM sched.setting AS s, sched.kind AS k, sched.queue AS q WHERE s.key = 'max_args_bytes' AND q.name = 'q'`))
}

// An enqueue never waits for an apply, whatever that holds.
func TestApplyHoldsUpNoEnqueue(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool, "SELECT sched.enqueue('send_mail')")
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	_, err = apply(t.Context(), tx, parsed(t, whole), Options{})
	require.NoError(t, err)

	other, err := pgx.Connect(t.Context(), pgtest.DSN(pool))
	require.NoError(t, err)
	defer other.Close(context.WithoutCancel(t.Context()))
	_, err = other.Exec(t.Context(), "SET lock_timeout = '1ms'")
	require.NoError(t, err)
	_, err = other.Exec(t.Context(), "SELECT sched.enqueue('send_mail'), sched.enqueue('a', queue => 'mail'), sched.enqueue('b', queue => 'render', selector => '{\"gpu\": \"a100\", \"zone\": \"1\"}', protocol => 'grpc')")
	require.NoError(t, err)
	require.NoError(t, tx.Commit(t.Context()))
}

func TestApplyWaitsForAnOpenFirstUseOfAQueue(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	_, err = tx.Exec(t.Context(), "SELECT sched.enqueue('a', queue => 'mail')")
	require.NoError(t, err)

	_, err = Apply(t.Context(), pool, parsed(t, "queues: [{name: mail, description: Mail}]"), Options{})
	require.ErrorIs(t, err, ErrBusy)
	require.ErrorContains(t, err, "queue mail")
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, []move{{Alter, "queue mail", []FieldChange{{"description", nil, "Mail"}}}}, applied(t, pool, "queues: [{name: mail, description: Mail}]", Options{}))
}

// Whatever a file says: applied to any state the database then says the same, and
// its export applied to it changes nothing.
func TestExportThenApplyChangesNothing(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	ctx := t.Context()
	rapid.Check(t, func(t *rapid.T) {
		file := distinct(fleets().Draw(t, "fleet"))
		_, err := Apply(ctx, pool, file, Options{Prune: true})
		require.NoError(t, err)

		state, err := Read(ctx, pool)
		require.NoError(t, err)
		require.Empty(t, Diff(file, state, true), "the database says what the file says")
		exported, err := Export(state.Configured())
		require.NoError(t, err)
		again, err := Parse("export", exported)
		require.NoError(t, err, "%s", exported)
		changes, err := Apply(ctx, pool, again, Options{Prune: true})
		require.NoError(t, err)
		require.Empty(t, changes, "%s", exported)
	})
}

// What is set by hand, in forms that no file has, comes through an export too.
func TestExportOfWhatWasSetByHand(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool, `INSERT INTO sched.kind (kind, timeout, retry_base, retry_cap, retry_factor, retry_jitter, selector, description) VALUES
		('a', '1 day 2 hours', '7 days', '1 week', 99.9999, 0.1, '{}', E'tab\t\u0085 "quoted" # no comment\n\ntrue'), ('null', '1 microsecond', NULL, NULL, NULL, NULL, '{"null": "~"}', 'yes'),
		('123', NULL, NULL, NULL, NULL, NULL, NULL, '1.0')`)
	exec(t, pool, "SELECT sched.enqueue('a', queue => 'seen')")
	exec(t, pool, `INSERT INTO sched.queue (name, base, description) VALUES ('Odd|Name', 'Odd', 'made by a River client')`)
	exec(t, pool, "INSERT INTO sched.setting (key, value) VALUES ('mine', '7')")
	state, err := Read(t.Context(), pool)
	require.NoError(t, err)
	text, err := Export(state.Configured())
	require.NoError(t, err)
	require.NotContains(t, string(text), "Odd")
	require.NotContains(t, string(text), "seen", "nothing of it is configured")
	require.Empty(t, applied(t, pool, string(text), Options{Prune: true}), "%s", text)
}

// The tables of fields have what the database has.
func TestFieldsMatchTheDatabase(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	columns := func(table string, without ...string) []string {
		return slices.DeleteFunc(all[string](t, pool, "SELECT attname::text FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped", "sched."+table),
			func(c string) bool { return slices.Contains(without, c) })
	}
	require.ElementsMatch(t, columns("kind", "kind", "pinned", "updated_at", "updated_by"), keysOf(Kinds.Fields()))
	require.ElementsMatch(t, columns("schedule", "name", "pinned", "created_at", "updated_at", "updated_by", "next_run_at", "last_due_at", "last_run_at", "last_task_id",
		"waiting_since", "waiting_reason", "error"), keysOf(Schedules.Fields()))
	state := []string{"pressure", "pressure_reason", "pending", "load", "workers", "weight_total", "free_slots", "wake", "direct", "unroutable", "state_at", "config_xid"}
	require.ElementsMatch(t, columns("queue", append(state, "name", "base", "selector", "protocol", "created_at", "pinned")...), keysOf(Queues.Fields()))

	var settings []string
	for _, f := range Settings.Fields() {
		value, err := json.Marshal(f.Default)
		require.NoError(t, err)
		settings = append(settings, f.Key+" "+string(value)+" "+f.Doc)
		low, high := "true", "false"
		switch f.Type {
		case Flag:
		case Text:
			_, err := pool.Exec(t.Context(), `UPDATE sched.setting SET value = '"zebra"' WHERE key = $1`, f.Key)
			require.ErrorContains(t, err, "_fits", f.Key)
			for _, v := range f.Enum {
				exec(t, pool, "UPDATE sched.setting SET value = to_jsonb($2::text) WHERE key = $1", f.Key, v)
			}
			low, high = string(value), string(value)
		default:
			step := 1.0
			if f.Type == Number {
				step = 0.001
			}
			low, high = plain(f.Min), plain(f.Max)
			for _, outside := range []float64{f.Min - step, f.Max + step} {
				_, err := pool.Exec(t.Context(), "UPDATE sched.setting SET value = $2::text::jsonb WHERE key = $1", f.Key, plain(outside))
				require.ErrorContains(t, err, "_fits", "%s %v", f.Key, outside)
			}
		}
		for _, inside := range []string{low, high, string(value)} {
			exec(t, pool, "UPDATE sched.setting SET value = $2::text::jsonb WHERE key = $1", f.Key, inside)
		}
	}
	require.ElementsMatch(t, settings, all[string](t, pool, "SELECT key || ' ' || value || ' ' || description FROM sched.setting"))
}

// The limits of the keys of kinds and queues are those of their columns.
func TestLimitsMatchTheDatabase(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for _, section := range []Section{Kinds, Queues, Schedules} {
		for _, f := range section.Fields() {
			good, bad := limitsOf(f)
			kind := map[Type]string{Text: "text", Integer: "integer", Number: "real", Duration: "interval", Labels: "jsonb"}[f.Type]
			set := "INSERT INTO sched.kind (kind, " + f.Key + ") VALUES (md5(random()::text), $1::text::" + kind + ")"
			if section == Queues {
				set = "INSERT INTO sched.queue (name, base, " + f.Key + ") VALUES (md5(random()::text), 'q', $1::text::" + kind + ")"
			}
			if section == Schedules {
				others := map[string]string{"cron": "kind", "kind": "cron"}
				set = "INSERT INTO sched.schedule (name, " + cmp.Or(others[f.Key], "cron, kind") + ", " + f.Key + ") VALUES (md5(random()::text), " +
					map[bool]string{true: "'x'", false: "'x', 'x'"}[others[f.Key] != ""] + ", $1::text::" + kind + ")"
			}
			for _, v := range good {
				exec(t, pool, set, v)
			}
			for _, v := range bad {
				_, err := pool.Exec(t.Context(), set, v)
				require.ErrorContains(t, err, section.One()+"_"+f.Key+"_check", v)
			}
		}
	}
}

// limitsOf returns texts just inside and just outside of a field's limits.
func limitsOf(f Field) (good, bad []string) {
	switch f.Type {
	case Integer, Number:
		good, bad = []string{plain(f.Min)}, []string{plain(f.Min - 1), plain(f.Max + 1)}
		if f.BelowMax {
			bad = append(bad, plain(f.Max))
		} else {
			good = append(good, plain(f.Max))
		}
	case Duration:
		text := func(d time.Duration) string { return fmt.Sprintf("%d microseconds", d.Microseconds()) }
		good = []string{text(time.Duration(f.Min)), text(time.Duration(f.Max))}
		bad = []string{text(time.Duration(f.Min) - leastResolution), text(time.Duration(f.Max) + leastResolution)}
	case Text:
		if f.Enum != nil {
			return f.Enum, []string{"other", ""}
		}
		good, bad = []string{"a", strings.Repeat("a", int(f.Max))}, []string{"", strings.Repeat("a", int(f.Max)+1)}
	case Flag, Labels, JSON:
	}
	return good, bad
}
