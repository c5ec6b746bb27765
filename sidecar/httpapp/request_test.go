package httpapp

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// received is what an app saw of a request.
type received struct {
	method, path, host, body string
	header                   http.Header
}

// recorder is an app that completes every task and passes on what it saw.
func recorder(tb testing.TB, change ...func(*Config)) (*Dispatcher, <-chan received) {
	tb.Helper()
	seen := make(chan received, 16)
	return newApp(tb, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen <- received{r.Method, r.URL.EscapedPath(), r.Host, string(body), r.Header}
	}, change...), seen
}

func TestRequest(t *testing.T) {
	t.Parallel()
	d, seen := recorder(t)
	task := newTask()
	task.Deadline = time.Date(2026, 3, 1, 14, 0, 30, 500_000_000, time.FixedZone("", 7200))
	task.Batch = "nightly 2026-03-01 ✓"
	task.Headers = map[string]string{
		"traceparent":   "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"tracestate":    "vendor=1",
		"baggage":       "tenant=7",
		"authorization": "Bearer x",
		"sched-lease":   "forged",
	}
	require.Equal(t, "complete", dispatchFor(t, d, task).Kind.String())

	r := <-seen
	require.Equal(t, http.MethodPost, r.method)
	require.Equal(t, "/mail.send", r.path)
	require.Equal(t, string(task.Args), r.body, "args go out verbatim")
	require.Equal(t, http.Header{
		"Content-Length":     {"23"},
		"Content-Type":       {"application/json"},
		"User-Agent":         {"sched-sidecar"},
		"Ce-Specversion":     {"1.0"},
		"Ce-Id":              {"42"},
		"Ce-Source":          {"/sched"},
		"Ce-Type":            {"mail.send"},
		"Ce-Time":            {"2026-03-01T11:59:58.007Z"},
		"Ce-Subject":         {"default"},
		"Sched-Task-Id":      {"42"},
		"Sched-Queue":        {"default"},
		"Sched-Attempt":      {"2"},
		"Sched-Max-Attempts": {"25"},
		"Sched-Lease":        {"w-3f9k2m7q4t1x.1764480000123456"},
		"Sched-Deadline":     {"2026-03-01T12:00:30.500Z"},
		"Sched-Batch":        {"nightly%202026-03-01%20%E2%9C%93"},
		"Traceparent":        {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
		"Tracestate":         {"vendor=1"},
		"Baggage":            {"tenant=7"},
		"Accept":             {"application/json, text/plain;q=0.9, */*;q=0.1"},
		"Authorization":      {"Bearer x"},
	}, r.header)
}

func TestRequestLeavesOutWhatTheTaskLacks(t *testing.T) {
	t.Parallel()
	d, seen := recorder(t)
	task := newTask()
	task.Args, task.CreatedAt = nil, time.Time{}
	dispatchFor(t, d, task)

	r := <-seen
	require.Equal(t, "{}", r.body, "a body that is application/json is never empty")
	for _, name := range []string{"Ce-Time", "Sched-Deadline", "Sched-Batch", "Webhook-Id", "Webhook-Signature", "Accept-Encoding"} {
		require.NotContains(t, r.header, name)
	}
}

func TestRedeliveryIsTheSameEvent(t *testing.T) {
	t.Parallel()
	d, seen := recorder(t, withSecrets(vectorSecret))
	task := newTask()
	dispatchFor(t, d, task)
	task.Attempt++
	dispatchFor(t, d, task)

	first, second := <-seen, <-seen
	for _, name := range []string{"Ce-Id", "Ce-Source", "Ce-Time", "Webhook-Id"} {
		require.NotEmpty(t, first.header.Get(name))
		require.Equal(t, first.header.Get(name), second.header.Get(name), name)
	}
	require.Equal(t, "2", first.header.Get("Sched-Attempt"))
	require.Equal(t, "3", second.header.Get("Sched-Attempt"))
}

func TestRequestPath(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 1)
	app := func(_ http.ResponseWriter, r *http.Request) { seen <- r.URL.EscapedPath() }
	for kind, path := range map[string]string{
		"mail.send":     "/a%20b/mail.send",
		"mail/send":     "/a%20b/mail%2Fsend",
		"a/../../b":     "/a%20b/a%2F..%2F..%2Fb",
		"list<[]int>":   "/a%20b/list%3C%5B%5Dint%3E",
		"a·b:c+d":       "/a%20b/a%C2%B7b:c+d",
		"what?x=1#frag": "/a%20b/what%3Fx=1%23frag",
		"100%":          "/a%20b/100%25",
	} {
		d := newApp(t, app, func(c *Config) { c.URL += "/a%20b/" })
		task := newTask()
		task.Kind = kind
		dispatchFor(t, d, task)
		require.Equal(t, path, <-seen, kind)
	}
}

func TestRequestNamesTheAPI(t *testing.T) {
	t.Parallel()
	d, seen := recorder(t)
	dispatchFor(t, d, newTask())
	require.NotContains(t, (<-seen).header, "Sched-Api", "unless told")

	d, seen = recorder(t)
	d.TellAPI("http://127.0.0.1:9464")
	task := newTask()
	task.Headers = map[string]string{"sched-api": "http://forged"}
	dispatchFor(t, d, task)
	require.Equal(t, []string{"http://127.0.0.1:9464/v1/tasks/42"}, (<-seen).header["Sched-Api"])
}
