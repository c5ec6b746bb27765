package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// testScreen is a screen with a clock that stands until it is moved.
func testScreen(terminal bool) (s *screen, out *bytes.Buffer, move func(time.Duration)) {
	out = &bytes.Buffer{}
	now := time.Date(2026, 11, 30, 23, 59, 0, 0, time.UTC)
	s = &screen{out: out, terminal: terminal, start: now, now: func() time.Time { return now }}
	return s, out, func(d time.Duration) { now = now.Add(d) }
}

func TestATerminalHasOneUpdatingLine(t *testing.T) {
	t.Parallel()
	s, out, move := testScreen(true)
	s.status("one")
	move(100 * time.Millisecond)
	s.status("two")
	s.say("killed %s", "A")
	s.print("done")
	require.Equal(t, "\r\x1b[K\x1b[?7l   0.0 s  one\x1b[?7h"+
		"\r\x1b[K\x1b[?7l   0.1 s  two\x1b[?7h"+
		"\r\x1b[K   0.1 s  killed A\ndone\n", out.String())
}

func TestElsewhereTheStatusIsALineNowAndThen(t *testing.T) {
	t.Parallel()
	s, out, move := testScreen(false)
	for range 21 {
		s.status("at work")
		move(200 * time.Millisecond)
	}
	require.Equal(t, "   0.0 s  at work\n   2.0 s  at work\n   4.0 s  at work\n", out.String())
	require.NotContains(t, out.String(), "\x1b")
}

func TestAFileIsNoTerminal(t *testing.T) {
	t.Parallel()
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	defer file.Close()
	require.False(t, newScreen(file, time.Now()).terminal)
}

func TestBar(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		done, total int64
		filled      int
	}{{0, 100, 0}, {4, 100, 0}, {5, 100, 1}, {50, 100, 10}, {99, 100, 19}, {100, 100, 20}, {101, 100, 20}, {0, 0, 0}} {
		got := bar(test.done, test.total)
		require.Equal(t, test.filled, strings.Count(got, "█"), "%d of %d", test.done, test.total)
		require.Equal(t, barWidth, strings.Count(got, "█")+strings.Count(got, "░"))
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 50_000: "50,000", -1_234_567: "-1,234,567"} {
		require.Equal(t, want, thousands(n))
	}
	for cents, want := range map[int64]string{0: "0.00", 5: "0.05", -5: "-0.05", 123_456_789: "1,234,567.89", -100_000: "-1,000.00"} {
		require.Equal(t, want, money(cents))
	}
}
