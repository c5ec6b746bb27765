package console_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/sidecar/console"
)

// stream is a page that follows.
type stream struct {
	t        *testing.T
	response *http.Response
	lines    *bufio.Scanner
}

func (b *bundle) follow(page string) *stream {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, b.url+"/console/live?page="+page, nil)
	require.NoError(b.t, err)
	response, err := b.client.Do(r)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = response.Body.Close() })
	s := &stream{b.t, response, bufio.NewScanner(response.Body)}
	s.lines.Buffer(nil, 1<<20)
	return s
}

// next returns the data of the next event of a name.
func (s *stream) next(event string) string {
	s.t.Helper()
	name := ""
	for s.lines.Scan() {
		line := s.lines.Text()
		if text, ok := strings.CutPrefix(line, "event: "); ok {
			name = text
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok && name == event {
			return data
		}
	}
	require.Failf(s.t, "the stream ended", "without another %s: %v", event, s.lines.Err())
	return ""
}

func TestLive(t *testing.T) {
	t.Parallel()
	b := setup(t)
	fill(b)
	s := b.follow("workers")
	require.Equal(t, "text/event-stream", s.response.Header.Get("Content-Type"))
	require.NotEmpty(t, s.next("history"))
	var sample struct{ Running, Slots, Ceiling *int }
	require.NoError(t, json.Unmarshal([]byte(s.next("sample")), &sample))
	require.Equal(t, 3, *sample.Running)
	require.Equal(t, 8, *sample.Slots)
	require.Equal(t, 12, *sample.Ceiling)
	var tables struct{ HTML string }
	require.NoError(t, json.Unmarshal([]byte(s.next("tables")), &tables))
	require.Contains(t, tables.HTML, "w-one")
	require.NotContains(t, tables.HTML, "<script")

	b.exec("UPDATE sched.worker SET running = 4 WHERE id = 'w-one'")
	for *sample.Running != 4 {
		require.NoError(t, json.Unmarshal([]byte(s.next("sample")), &sample))
	}
	overview := b.follow("overview")
	require.NotEqual(t, "null", overview.next("history"), "whoever comes later sees what was")
	require.NoError(t, json.Unmarshal([]byte(overview.next("tables")), &tables))
	require.Contains(t, tables.HTML, "letters")
	require.Equal(t, http.StatusBadRequest, b.get("/console/live?page=other").status)
}

// What arrives and ends is seen as it does.
func TestRates(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.follow("overview")
	s.next("sample")
	b.exec(`SELECT sched.enqueue('mail') FROM generate_series(1, 500)`)
	b.exec(`UPDATE sched.river_job SET state = 'completed', finalized_at = clock_timestamp(), attempted_at = clock_timestamp(), attempted_by = '{w}', scheduled_at = clock_timestamp() - interval '2 seconds'`)
	var enqueued, ended, wait bool
	for range 12 {
		var sample struct{ Enqueued, Ended, P50 *float64 }
		require.NoError(t, json.Unmarshal([]byte(s.next("sample")), &sample))
		enqueued = enqueued || sample.Enqueued != nil && *sample.Enqueued > 0
		ended = ended || sample.Ended != nil && *sample.Ended > 0
		wait = wait || sample.P50 != nil && *sample.P50 > 1 && *sample.P50 < 4
		if enqueued && ended && wait {
			return
		}
	}
	require.True(t, enqueued, "enqueued")
	require.True(t, ended, "ended")
	require.True(t, wait, "wait")
}

func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *console.Config) { c.MaxStreams = 1 })
	first := b.follow("queues")
	first.next("history")
	refused := b.get("/console/live?page=queues")
	require.Equal(t, http.StatusServiceUnavailable, refused.status)
	require.Equal(t, "10", refused.header.Get("Retry-After"))
	require.NoError(t, first.response.Body.Close())
	require.Eventually(t, func() bool { return b.follow("queues").response.StatusCode == http.StatusOK }, patience, tick)
}

const (
	patience = time.Minute
	tick     = 50 * time.Millisecond
)
