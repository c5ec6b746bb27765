package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func testTable(rows ...[]string) *table {
	t := &table{columns: []column{{title: "ID", right: true}, {title: "NAME", flexible: true}, {title: "NOTE", flexible: true}}}
	for _, row := range rows {
		t.add(nil, row...)
	}

	return t
}

func TestTable(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	require.NoError(t, testTable([]string{"7", "mail", "ok"}, []string{"12", "müll", ""}).write(&b, 0, true))
	require.Equal(t, "ID  NAME  NOTE\n 7  mail  ok\n12  müll\n", b.String())
}

func TestTableFits(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	require.NoError(t, testTable([]string{"7", "a.long.kind.of.task", "an error that says a lot"}).write(&b, 30, false))
	require.Equal(t, "ID  NAME          NOTE\n 7  a.long.kind…  an error th…\n", b.String())

	// Without a terminal nothing is cut.
	b.Reset()
	require.NoError(t, testTable([]string{"7", "a.long.kind.of.task", "an error that says a lot"}).write(&b, 0, false))
	require.Contains(t, b.String(), "an error that says a lot")
}

func TestTableLeavesOut(t *testing.T) {
	t.Parallel()
	of := func(note string) *table {
		t := &table{columns: []column{
			{title: "ID"},
			{title: "QUEUE", spare: true},
			{title: "WORKER", spare: true},
			{title: "NOTE", flexible: true, optional: true},
		}}
		t.add(nil, "7", "default", "w-3f9k2m7q4t1x", note)

		return t
	}
	for _, tt := range []struct {
		note  string
		width int
		want  string
	}{
		{"", 0, "ID  QUEUE    WORKER\n7   default  w-3f9k2m7q4t1x\n"},
		{"an error", 0, "ID  QUEUE    WORKER          NOTE\n7   default  w-3f9k2m7q4t1x  an error\n"},
		{"an error, long", 37, "ID  QUEUE    WORKER          NOTE\n7   default  w-3f9k2m7q4t1x  an erro…\n"},
		{"an error, long", 36, "ID  QUEUE    NOTE\n7   default  an error, long\n"},
		{"an error, long", 12, "ID  NOTE\n7   an erro…\n"},
		{"an error, long", 5, "ID  NOTE\n7   an erro…\n"},
	} {
		var b strings.Builder
		require.NoError(t, of(tt.note).write(&b, tt.width, false))
		require.Equal(t, tt.want, b.String(), tt.width)
	}
}

// Whatever the cells hold, a table is one line a row and no wider than asked, down
// to what can't be cut.
func TestTableWidth(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(30, 120).Draw(t, "width")
		cells := rapid.SliceOfN(rapid.String(), 2, 2)
		table := testTable()
		n := rapid.IntRange(0, 5).Draw(t, "rows")
		for range n {
			table.add(nil, append([]string{"1"}, cells.Draw(t, "cells")...)...)
		}
		var b strings.Builder
		require.NoError(t, table.write(&b, width, false))
		lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
		require.Len(t, lines, n+1)
		for _, line := range lines {
			require.LessOrEqual(t, utf8.RuneCountInString(line), width)
			require.NotContains(t, line, "\x1b")
		}
	})
}

func TestTableColors(t *testing.T) {
	t.Parallel()
	table := testTable()
	table.add(map[int]color{1: red}, "7", "ab", "c")
	var b strings.Builder
	require.NoError(t, table.write(&b, 0, true))
	require.Equal(t, "ID  NAME  NOTE\n 7  \x1b[31mab\x1b[0m    c\n", b.String(), "the gap is not painted")
	b.Reset()
	require.NoError(t, table.write(&b, 0, false))
	require.NotContains(t, b.String(), "\x1b")
}

func TestClean(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a\nb\tc":          "a b c",
		"\x1b[31mred\a":    "\ufffd[31mred\ufffd",
		"\u009b2J\x7f":     "\ufffd2J\ufffd",
		"a\u202ecod.exe":   "a\ufffdcod.exe",
		"\xff":             "\ufffd",
		"grüße, 世界 🙂 fine": "grüße, 世界 🙂 fine",
	} {
		require.Equal(t, want, clean(in))
	}
}

func TestFacts(t *testing.T) {
	t.Parallel()
	var f facts
	f.add("id", "7")
	f.add("nothing", "")
	f.addf("args", "{\n  %q\n}", "a")
	var b strings.Builder
	require.NoError(t, f.write(&b))
	require.Equal(t, "id    7\nargs  {\n        \"a\"\n      }\n", b.String())
}

func TestSpan(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second:            "0s",
		0:                       "0ms",
		999 * time.Millisecond:  "999ms",
		1500 * time.Millisecond: "1.5s",
		42 * time.Second:        "42s",
		119 * time.Minute:       "119m",
		47 * time.Hour:          "47h",
		75 * time.Hour:          "3d",
	} {
		require.Equal(t, want, span(d))
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000"} {
		require.Equal(t, want, number(n))
	}
	require.Equal(t, "10,000+", atLeast(10000, true))
	require.Equal(t, "1 task", plural(1, "task"))
	require.Equal(t, "2 tasks", plural(2, "task"))
}

func TestPairs(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a=1, gpu=a100", pairs(json.RawMessage(`{"gpu": "a100", "a": 1}`)))
	require.Empty(t, pairs(json.RawMessage(`{}`)))
	require.Equal(t, "[1]", pairs(json.RawMessage(`[1]`)))
}

func TestIndented(t *testing.T) {
	t.Parallel()
	require.Empty(t, indented(nil))
	require.Empty(t, indented(json.RawMessage("null")))
	require.JSONEq(t, `{"a": 1}`, indented(json.RawMessage(`{"a": 1}`)))
	require.Contains(t, indented(json.RawMessage(`{"a": "`+strings.Repeat("x", 80)+`"}`)), "{\n  \"a\"")
}

func TestParseSpan(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"30s": 30 * time.Second, "2h": 2 * time.Hour, "3d": 72 * time.Hour, "1d12h": 36 * time.Hour, "0s": 0,
	} {
		got, err := parseSpan(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "5", "-1h", "d", "1.5d", "xd", "1d2d", "99999999d", "yesterday"} {
		_, err := parseSpan(text)
		require.ErrorContains(t, err, "is no length of time", text)
	}
}

func TestParseTime(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Time{
		"2030-01-31T12:00:00Z":        time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC),
		"2030-01-31T12:00:00.5+02:00": time.Date(2030, 1, 31, 10, 0, 0, 500_000_000, time.UTC),
		"2030-01-31 12:00":            time.Date(2030, 1, 31, 12, 0, 0, 0, time.Local),
		"2030-01-31":                  time.Date(2030, 1, 31, 0, 0, 0, 0, time.Local),
		"2030-01-31T12:00:01":         time.Date(2030, 1, 31, 12, 0, 1, 0, time.Local),
	} {
		got, err := parseTime(text)
		require.NoError(t, err, text)
		require.True(t, want.Equal(got), "%s: %s", text, got)
	}
	for _, text := range []string{"", "12:00", "31.1.2030", "2030-02-30"} {
		_, err := parseTime(text)
		require.ErrorContains(t, err, "is no time", text)
	}
}

func TestMoment(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	var v momentValue
	require.NoError(t, v.Set("2h"))
	require.Equal(t, now.Add(-2*time.Hour), v.at(now))
	require.NoError(t, v.Set("2030-01-01T00:00:00Z"))
	require.True(t, time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).Equal(v.at(now)))
	require.ErrorContains(t, v.Set("soon"), "or how long ago, like 2h")
}

func TestPairsValue(t *testing.T) {
	t.Parallel()
	v := pairsValue{}
	require.NoError(t, v.Set("a=b,c=d"))
	require.NoError(t, v.Set("e="))
	require.Equal(t, pairsValue{"a": "b,c=d", "e": ""}, v)
	require.ErrorContains(t, v.Set("x"), "is no key=value")
	require.ErrorContains(t, v.Set("=x"), "is no key=value")
}

func TestProgress(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	var b strings.Builder
	s := &screen{err: &b, live: true}
	p := newProgress(s, "enqueued", 1000)
	p.now, p.began = func() time.Time { return now }, now

	now = now.Add(10 * time.Second)
	p.set(5000, 500)
	require.Equal(t, "\renqueued 5,000 tasks  [############------------]  50 %  10s left  500/s", b.String())
	b.Reset()
	now = now.Add(progressEvery / 2)
	p.set(6000, 600)
	require.Empty(t, b.String(), "not so soon again")
	now = now.Add(progressEvery)
	p.set(9000, 2000)
	require.Contains(t, b.String(), "[########################] 100 %", "a file that grew meanwhile")
	require.NotContains(t, b.String(), "left")
	b.Reset()
	p.end()
	require.Regexp(t, `^\r +\r$`, b.String())

	b.Reset()
	unknown := newProgress(s, "enqueued", 0)
	unknown.set(1, 500)
	require.Equal(t, "\renqueued 1 task", b.String())

	b.Reset()
	newProgress(&screen{err: &b}, "enqueued", 0).set(1, 500)
	require.Empty(t, b.String(), "no terminal")
}

func TestConfirm(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]error{"y\n": nil, "YES\n": nil, "y": nil, "n\n": errNotConfirmed, "\n": errNotConfirmed, "": errNotConfirmed, "yy\n": errNotConfirmed} {
		var asked strings.Builder
		err := confirm(t.Context(), strings.NewReader(answer), &asked, "Cancel 3 tasks? [y/N] ")
		require.Equal(t, want, err, answer)
		require.Equal(t, "Cancel 3 tasks? [y/N] ", asked.String())
	}
}

func TestNoColor(t *testing.T) {
	t.Parallel()
	for variable, want := range map[string]bool{"NO_COLOR=1": true, "NO_COLOR=": false, "TERM=dumb": true, "TERM=xterm": false, "NO_COLORS=1": false} {
		require.Equal(t, want, isNoColor(variable), variable)
	}
}
