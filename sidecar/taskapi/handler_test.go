package taskapi_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/sidecar/taskapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "w-3f9k2m7q4t1x.1764480000123456"

func lease() jobs.Lease {
	return jobs.Lease{WorkerID: "w-3f9k2m7q4t1x", AttemptedAt: time.UnixMicro(1764480000123456).UTC()}
}

// settler answers as told and remembers what it was asked.
type settler struct {
	err     error
	asked   bool // to cancel
	calls   int
	id      int64
	lease   jobs.Lease
	outcome jobs.Outcome
	wait    time.Duration // how long settling takes, unless the app leaves
}

func (s *settler) SettleAccepted(ctx context.Context, id int64, lease jobs.Lease, outcome jobs.Outcome) error {
	if s.wait > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(s.wait):
		}
	}
	s.calls++
	s.id, s.lease, s.outcome = id, lease, outcome
	return s.err
}

func (s *settler) AcceptedState(_ context.Context, id int64, lease jobs.Lease) (bool, error) {
	s.calls++
	s.id, s.lease = id, lease
	return s.asked, s.err
}

// call sends one request, with the lease unless change says otherwise.
func call(s *settler, options taskapi.Options, method, path, body string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	request := httptest.NewRequestWithContext(context.Background(), method, "http://127.0.0.1:7700"+path, strings.NewReader(body))
	request.Header.Set("Sched-Lease", token)
	for _, f := range change {
		f(request)
	}
	response := httptest.NewRecorder()
	taskapi.Handler(s, options).ServeHTTP(response, request)
	return response
}

// requireProblem checks that response is a problem and returns its detail.
func requireProblem(t *testing.T, response *httptest.ResponseRecorder, status int, code string) string {
	t.Helper()
	require.Equal(t, status, response.Code, response.Body)
	require.Equal(t, "application/problem+json", response.Header().Get("Content-Type"))
	var problem struct {
		Type, Title, Code, Detail string
		Status                    int
	}
	require.NoError(t, json.Unmarshal(response.Body.Bytes(), &problem))
	require.Equal(t, "about:blank", problem.Type)
	require.Equal(t, http.StatusText(status), problem.Title)
	require.Equal(t, status, problem.Status)
	require.Equal(t, code, problem.Code)
	return problem.Detail
}

func TestSettle(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		action, body string
		want         jobs.Outcome
	}{
		{"complete", ``, jobs.Outcome{Kind: jobs.OutcomeComplete}},
		{"complete", " \n", jobs.Outcome{Kind: jobs.OutcomeComplete}},
		{"complete", ` {"a": 1} `, jobs.Outcome{Kind: jobs.OutcomeComplete, Output: json.RawMessage(`{"a": 1}`)}},
		{"complete", `null`, jobs.Outcome{Kind: jobs.OutcomeComplete, Output: json.RawMessage(`null`)}},
		{"retry", `{"error":"boom","delay_ms":1500}`, jobs.Outcome{Kind: jobs.OutcomeRetry, Error: "boom", Delay: 1500 * time.Millisecond}},
		{"retry", `{"error":"a\u0000b"}`, jobs.Outcome{Kind: jobs.OutcomeRetry, Error: "ab"}},
		{"retry", `{}`, jobs.Outcome{Kind: jobs.OutcomeRetry, Error: "the app reported a failure without a reason"}},
		{"retry", ``, jobs.Outcome{Kind: jobs.OutcomeRetry, Error: "the app reported a failure without a reason"}},
		{"snooze", `{"delay_ms":1}`, jobs.Outcome{Kind: jobs.OutcomeSnooze, Delay: time.Millisecond}},
		{"snooze", `{"delay_ms":2592000000}`, jobs.Outcome{Kind: jobs.OutcomeSnooze, Delay: taskapi.MaxDelay}},
		{"cancel", `{"error":"no such user"}`, jobs.Outcome{Kind: jobs.OutcomeCancel, Error: "no such user"}},
		{"cancel", `{"error":"\u0000 "}`, jobs.Outcome{Kind: jobs.OutcomeCancel, Error: "the app cancelled the task without a reason"}},
	} {
		s := &settler{}
		response := call(s, taskapi.Options{}, "POST", "/v1/tasks/42/"+tc.action, tc.body)
		require.Equal(t, http.StatusNoContent, response.Code, response.Body)
		require.Equal(t, settler{calls: 1, id: 42, lease: lease(), outcome: tc.want}, *s, "%s %s", tc.action, tc.body)
	}
}

func TestSettleRefusesBodies(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ action, body, says string }{
		{"complete", `ok`, "not valid JSON"},
		{"complete", `"\u0000"`, "the task is still running: complete it again"},
		{"retry", `{"delay":5}`, `unknown field "delay"`},
		{"retry", `{"delay_ms":-1}`, "send milliseconds from 0 to 2592000000"},
		{"retry", `{"delay_ms":2592000001}`, "delay_ms is 2592000001"},
		{"retry", `{"delay_ms":1.5}`, "the body cannot be read"},
		{"retry", `{"error":5}`, "the body cannot be read"},
		{"retry", `{}{}`, "more than one JSON value"},
		{"retry", `[]`, "the body cannot be read"},
		{"snooze", ``, "send milliseconds from 1 to"},
		{"snooze", `{"delay_ms":0}`, "send milliseconds from 1 to"},
		{"snooze", `{"delay_ms":9223372036854775807}`, "send milliseconds from 1 to"},
		{"snooze", `{"delay_ms":1,"error":"x"}`, `unknown field "error"`},
		{"cancel", `{"error":"x","delay_ms":1}`, `unknown field "delay_ms"`},
	} {
		s := &settler{}
		detail := requireProblem(t, call(s, taskapi.Options{}, "POST", "/v1/tasks/42/"+tc.action, tc.body), 400, "invalid_argument")
		require.Contains(t, detail, tc.says)
		require.Zero(t, s.calls, "nothing was settled")
	}
}

func TestErrorTextIsBounded(t *testing.T) {
	t.Parallel()
	s := &settler{}
	call(s, taskapi.Options{}, "POST", "/v1/tasks/42/retry", `{"error":"`+strings.Repeat("x", 100_000)+`"}`)
	require.Len(t, s.outcome.Error, 8<<10)
}

func TestBodyIsBounded(t *testing.T) {
	t.Parallel()
	s := &settler{}
	options := taskapi.Options{MaxBodyBytes: 10}
	require.Equal(t, http.StatusNoContent, call(s, options, "POST", "/v1/tasks/42/complete", `"12345678"`).Code)
	s.calls = 0
	detail := requireProblem(t, call(s, options, "POST", "/v1/tasks/42/complete", `"123456789"`), 413, "too_large")
	require.Contains(t, detail, "more than 10 bytes")
	require.Zero(t, s.calls)
}

func TestBodyThatBreaksOff(t *testing.T) {
	t.Parallel()
	s := &settler{}
	response := call(s, taskapi.Options{}, "POST", "/v1/tasks/42/complete", "", func(r *http.Request) {
		r.Body = io.NopCloser(io.MultiReader(strings.NewReader(`1`), brokenReader{}))
	})
	require.Contains(t, requireProblem(t, response, 400, "invalid_argument"), "ended early")
	require.Zero(t, s.calls, "half an output is no output")
}

// TestServed calls through a real server: one app stalls in its body, another
// takes its time to be answered and is still connected then.
func TestServed(t *testing.T) {
	t.Parallel()
	s := &settler{wait: 100 * time.Millisecond}
	server := httptest.NewServer(taskapi.Handler(s, taskapi.Options{BodyTimeout: 20 * time.Millisecond}))
	t.Cleanup(server.Close)
	head := "POST /v1/tasks/42/complete HTTP/1.1\r\nHost: localhost\r\nSched-Lease: " + token + "\r\nContent-Length: 2\r\n\r\n"

	require.Equal(t, http.StatusRequestTimeout, talk(t, server, head+"4"))
	require.Zero(t, s.calls)

	require.Equal(t, http.StatusNoContent, talk(t, server, head+"42"))
	require.Len(t, s.outcome.Output, 2)

	// Without a body the server waits for a hang-up from the start.
	require.Equal(t, http.StatusNoContent, talk(t, server, strings.Replace(head, "Content-Length: 2", "Content-Length: 0", 1)))
}

// talk sends text on a connection of its own and returns the answer's status.
func talk(t *testing.T, server *httptest.Server, text string) int {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, text)
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer response.Body.Close()
	return response.StatusCode
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestLeaseAndID(t *testing.T) {
	t.Parallel()
	setLease := func(value string) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Del("Sched-Lease")
			if value != "" {
				r.Header.Set("Sched-Lease", value)
			}
		}
	}
	for _, tc := range []struct {
		path, header, says string // says "" = accepted
	}{
		{"/v1/tasks/42", token, ""},
		{"/v1/tasks/42?lease=" + token, "", ""},
		{"/v1/tasks/42?lease=" + token, token, ""},
		{"/v1/tasks/42?lease=w-other.1", token, "differ"},
		{"/v1/tasks/42", "", "the lease is missing"},
		{"/v1/tasks/42", "nonsense", "pass the Sched-Lease header unchanged"},
		{"/v1/tasks/0", token, "not a positive integer"},
		{"/v1/tasks/-1", token, "not a positive integer"},
		{"/v1/tasks/x", token, "not a positive integer"},
		{"/v1/tasks/9223372036854775808", token, "not a positive integer"},
	} {
		for _, method := range []string{"GET", "POST"} {
			path := tc.path
			if method == "POST" {
				before, query, _ := strings.Cut(path, "?")
				path = before + "/cancel?" + query
			}
			s := &settler{}
			response := call(s, taskapi.Options{}, method, path, "", setLease(tc.header))
			if tc.says == "" {
				require.Less(t, response.Code, 300, "%s %s: %s", method, path, response.Body)
				require.Equal(t, lease(), s.lease)
				require.EqualValues(t, 42, s.id)
				continue
			}
			require.Contains(t, requireProblem(t, response, 400, "invalid_argument"), tc.says, "%s %s", method, path)
			require.Zero(t, s.calls)
		}
	}
}

func TestSettlerErrors(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err    error
		status int
		code   string
		says   string
	}{
		{jobs.ErrLeaseLost, 409, "lease_lost", "stop working on it"},
		{jobs.ErrTaskNotFound, 404, "task_not_found", "no task with this id"},
		{jobs.ErrInvalidArgument, 400, "invalid_argument", "wrapped: invalid argument"},
		{jobs.ErrTooLarge, 413, "too_large", "wrapped: too large"},
		{errors.New("dial tcp: secret host"), 503, "unavailable", "call again"},
		{context.DeadlineExceeded, 503, "unavailable", "call again"},
	} {
		var log bytes.Buffer
		options := taskapi.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
		s := &settler{err: fmt.Errorf("wrapped: %w", tc.err)}
		response := call(s, options, "POST", "/v1/tasks/42/complete", "")
		detail := requireProblem(t, response, tc.status, tc.code)
		require.Contains(t, detail, tc.says)
		require.NotContains(t, detail, "secret host")
		if tc.status == 503 {
			require.Equal(t, "1", response.Header().Get("Retry-After"))
			require.Contains(t, log.String(), tc.err.Error(), "what the answer hides is logged")
		} else {
			require.Empty(t, log.String(), "an app's error is the app's to log")
		}
	}
}

func TestSettleForAnAppThatLeft(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	options := taskapi.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	response := call(&settler{err: context.Canceled}, options, "POST", "/v1/tasks/42/complete", "", func(r *http.Request) {
		*r = *r.WithContext(ctx)
	})
	require.Empty(t, response.Body.String())
	require.Empty(t, log.String())
}

func TestState(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		settler settler
		want    string
	}{
		{settler{}, `{"state":"running","cancel_requested":false}`},
		{settler{asked: true}, `{"state":"running","cancel_requested":true}`},
		{settler{err: jobs.ErrLeaseLost}, `{"state":"lost","cancel_requested":false}`},
		{settler{err: jobs.ErrLeaseLost, asked: true}, `{"state":"lost","cancel_requested":false}`},
	} {
		response := call(&tc.settler, taskapi.Options{}, "GET", "/v1/tasks/42", "")
		require.Equal(t, http.StatusOK, response.Code)
		require.Equal(t, "application/json", response.Header().Get("Content-Type"))
		require.JSONEq(t, tc.want, response.Body.String())
	}
	requireProblem(t, call(&settler{err: jobs.ErrTaskNotFound}, taskapi.Options{}, "GET", "/v1/tasks/42", ""), 404, "task_not_found")
	requireProblem(t, call(&settler{err: io.EOF}, taskapi.Options{}, "GET", "/v1/tasks/42", ""), 503, "unavailable")
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		method, path string
		status       int
		allow        []string
	}{
		{"GET", "/v1/tasks/42/complete", 405, []string{"POST"}},
		{"PUT", "/v1/tasks/42/retry", 405, []string{"POST"}},
		{"DELETE", "/v1/tasks/42", 405, []string{"GET", "HEAD"}},
		{"POST", "/v1/tasks/42", 405, []string{"GET", "HEAD"}},
		{"HEAD", "/v1/tasks/42", 200, nil},
		{"GET", "/", 404, nil},
		{"GET", "/v1/tasks", 404, nil},
		{"GET", "/v1/tasks/42/", 404, nil},
		{"POST", "/v1/tasks/42/discard", 404, nil},
		{"POST", "/v1/tasks/42/complete/x", 404, nil},
		{"POST", "/v2/tasks/42/complete", 404, nil},
	} {
		response := call(&settler{}, taskapi.Options{}, tc.method, tc.path, "")
		switch tc.status {
		case 405:
			requireProblem(t, response, 405, "method_not_allowed")
		case 404:
			requireProblem(t, response, 404, "not_found")
		}
		require.Equal(t, tc.status, response.Code, "%s %s", tc.method, tc.path)
		require.Equal(t, tc.allow, response.Header()["Allow"])
	}
}
