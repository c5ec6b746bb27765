package dev

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const soon = time.Minute

// screen is what a console wrote.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func TestConsoleWritesWholeLines(t *testing.T) {
	t.Parallel()
	out := &screen{}
	c := &console{out: out}
	app, sidecar := c.writer(appSource()), c.writer(sidecarSource())

	for _, part := range []string{"one\ntw", "o\r\n", "", "\nthree"} {
		n, err := app.Write([]byte(part))
		require.NoError(t, err)
		require.Equal(t, len(part), n)
	}
	fmt.Fprintln(sidecar, "between")
	c.say(postgresSource(), "at %d %%", 5)
	app.flush()
	app.flush()
	require.Equal(t, "app      | one\napp      | two\napp      | \nsidecar  | between\npostgres | at 5 %\napp      | three\n", out.String())
}

func TestConsoleCutsEndlessLines(t *testing.T) {
	t.Parallel()
	out := &screen{}
	app := (&console{out: out}).writer(appSource())
	fmt.Fprint(app, strings.Repeat("x", 2*lineMax+1))
	app.flush()
	require.Equal(t, 3, strings.Count(out.String(), "app      | x"))
	require.Equal(t, 2*lineMax+1, strings.Count(out.String(), "x"))
}

func TestConsoleColoursNames(t *testing.T) {
	t.Parallel()
	out := &screen{}
	(&console{out: out, colour: true}).say(appSource(), "hello")
	require.Equal(t, "\x1b[32mapp      | \x1b[0mhello\n", out.String())
}

func TestPipe(t *testing.T) {
	t.Parallel()
	out := &screen{}
	p, err := (&console{out: out}).pipe(appSource())
	require.NoError(t, err)
	fmt.Fprint(p.file, "first\nlast")
	require.NoError(t, p.close())
	require.Equal(t, "app      | first\napp      | last\n", out.String())
}

func TestPipeThatSomebodyKeepsOpen(t *testing.T) {
	t.Parallel()
	out := &screen{}
	p, err := (&console{out: out}).pipe(appSource())
	require.NoError(t, err)
	kept, err := os.OpenFile(fmt.Sprintf("/dev/fd/%d", p.file.Fd()), os.O_WRONLY, 0)
	require.NoError(t, err)
	defer func() { _ = kept.Close() }()
	fmt.Fprintln(kept, "from a daemon")
	require.NoError(t, p.close(), "it waits no longer than a moment")
	require.Equal(t, "app      | from a daemon\n", out.String())
}

func TestFollow(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(path, []byte("old\n"), 0o600))
	out := &screen{}
	stop, err := (&console{out: out}).follow(postgresSource(), path)
	require.NoError(t, err)
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	defer func() { _ = file.Close() }()

	fmt.Fprintln(file, "new")
	require.Eventually(t, func() bool { return out.String() == "postgres | new\n" }, soon, 10*time.Millisecond)
	fmt.Fprint(file, "last")
	stop()
	require.Equal(t, "postgres | new\npostgres | last\n", out.String())

	_, err = (&console{out: out}).follow(postgresSource(), path+"?")
	require.ErrorIs(t, err, os.ErrNotExist)
}
