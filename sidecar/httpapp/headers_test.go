package httpapp

import (
	"bufio"
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/sidecar/dispatch"
)

func TestPassThrough(t *testing.T) {
	t.Parallel()
	var r request
	r.passThrough(map[string]string{
		"traceparent": "00-a-b-01",
		"X-Tenant":    "7",
		"x-tenant":    "8",
		"X-Utf8":      "é",
		"X-Empty":     "",
		"Cookie":      "a=b",

		"X-Crlf":      "a\r\nSched-Lease: forged",
		"X-Nul":       "a\x00",
		"X-Bad\r\nY":  "a",
		"X Space":     "a",
		"X-Colon:":    "a",
		"":            "a",
		"X-Ümlaut":    "a",
		"sched-lease": "forged",
	})
	require.ElementsMatch(t, []field{
		{"Traceparent", "00-a-b-01"},
		{"X-Tenant", "7"},
		{"X-Utf8", "é"},
		{"X-Empty", ""},
		{"Cookie", "a=b"},
	}, r.fields)
}

func TestReservedHeaders(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"Sched-Lease", "SCHED-LEASE", "sched_lease", "Sched-Anything", "ce-id", "CE_ID", "ce-myextension",
		"webhook-id", "Webhook_Signature", "Content-Type", "Content-Length", "content_length", "Content-Encoding",
		"Host", "Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authorization", "TE", "Trailer",
		"Transfer-Encoding", "transfer_encoding", "Upgrade", "HTTP2-Settings", "Expect", "Accept-Encoding", "User-Agent",
	} {
		require.True(t, reserved(name), name)
	}
	for _, name := range []string{"traceparent", "Authorization", "X-Sched-Lease", "Cell", "Date", "Accept", "Hostname"} {
		require.False(t, reserved(name), name)
	}
}

func TestEncodeValue(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain|text~!":  "plain|text~!",
		"Euro € 😀":      "Euro%20%E2%82%AC%20%F0%9F%98%80", // the specification's example
		`say "100%"`:    "say%20%22100%25%22",
		"a\r\nb: c\x00": "a%0D%0Ab:%20c%00",
		"":              "",
	} {
		require.Equal(t, want, encodeValue(text))
	}
}

func TestPassThroughIsDeterministic(t *testing.T) {
	t.Parallel()
	for range 50 {
		var r request
		r.passThrough(map[string]string{"x-a": "4", "X-A": "1", "X-a": "2", "x-A": "3"})
		require.Equal(t, []field{{"X-A", "1"}}, r.fields)
	}
}

// FuzzHeaders holds a request with arbitrary task headers to what a server
// reads back from the wire.
func FuzzHeaders(f *testing.F) {
	f.Add("X-A", "b", "batch", "default")
	f.Add("Sched-Lease", "forged", "a\r\nb", "q|abc")
	f.Add("Transfer-Encoding", "chunked", "é", "q")
	f.Add("X-A\r\nSched-Lease", "a\nHost: b", "%", "q")
	f.Add("host", "evil", "", "q")
	d, err := New(Config{URL: "http://app.local/tasks", Secrets: []string{vectorSecret}})
	require.NoError(f, err)
	f.Cleanup(d.Close)
	f.Fuzz(func(t *testing.T, name, value, batch, queue string) {
		task := newTask()
		task.Batch, task.Queue = batch, queue
		clean := serverReads(t, d, task)
		task.Headers = map[string]string{name: value}
		got := serverReads(t, d, task)

		require.Equal(t, "app.local", got.Host)
		require.Equal(t, clean.ContentLength, got.ContentLength)
		require.Empty(t, got.TransferEncoding)
		for key, values := range clean.Header {
			require.Equal(t, values, got.Header[key], key)
		}
		require.LessOrEqual(t, len(got.Header), len(clean.Header)+1, "one task header makes at most one")
		for key, values := range got.Header {
			if _, ours := clean.Header[key]; !ours {
				require.Equal(t, http.CanonicalHeaderKey(name), key)
				require.Equal(t, []string{strings.Trim(value, " \t")}, values)
			}
		}
		decoded, err := url.PathUnescape(got.Header.Get("Sched-Batch"))
		require.NoError(t, err)
		require.Equal(t, batch, decoded)
	})
}

func serverReads(t *testing.T, d *Dispatcher, task *dispatch.Task) *http.Request {
	t.Helper()
	var wire bytes.Buffer
	d.transport.(*plain).serialize(&wire, d.post(task, noon())) //nolint:forcetypeassert // it is plain HTTP
	got, err := http.ReadRequest(bufio.NewReader(&wire))
	require.NoError(t, err)
	return got
}
