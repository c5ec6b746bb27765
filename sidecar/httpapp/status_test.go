package httpapp

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/jobs"
)

// answerWith is an app that always answers like this.
func answerWith(status int, header map[string]string, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		// Otherwise the server guesses one.
		w.Header()["Content-Type"] = nil
		for name, value := range header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

type headers = map[string]string

func TestStatusTable(t *testing.T) {
	t.Parallel()
	jsonType := headers{"Content-Type": "application/json"}
	noRetry := headers{"Sched-No-Retry": "true"}
	soon := headers{"Retry-After": "30"}
	for _, tc := range []struct {
		name   string
		status int
		header headers
		body   string
		want   jobs.Outcome // its Error is a part of the text
	}{
		{"json", 200, jsonType, ` {"a": 1} `, jobs.Outcome{Kind: jobs.OutcomeComplete, Output: json.RawMessage(`{"a": 1}`)}},
		{"json null", 200, jsonType, `null`, jobs.Outcome{Kind: jobs.OutcomeComplete, Output: json.RawMessage(`null`)}},
		{"created", 201, headers{"Content-Type": "application/problem+json; charset=utf-8"}, `[]`, jobs.Outcome{Kind: jobs.OutcomeComplete, Output: json.RawMessage(`[]`)}},
		{"sloppy parameter", 200, headers{"Content-Type": "application/json; charset"}, `1`, jobs.Outcome{Kind: jobs.OutcomeComplete, Output: json.RawMessage(`1`)}},
		{"text", 200, headers{"Content-Type": "text/plain"}, "done", jobs.Outcome{Kind: jobs.OutcomeComplete}},
		{"no type", 200, nil, `{"a":1}`, jobs.Outcome{Kind: jobs.OutcomeComplete}},
		{"json without body", 200, jsonType, "", jobs.Outcome{Kind: jobs.OutcomeComplete}},
		{"json of blanks", 200, jsonType, " \n", jobs.Outcome{Kind: jobs.OutcomeComplete}},
		{"no content", 204, nil, "", jobs.Outcome{Kind: jobs.OutcomeComplete}},
		{"done, whatever it says of retries", 200, noRetry, "", jobs.Outcome{Kind: jobs.OutcomeComplete}},
		{"broken json", 200, jsonType, "ok", jobs.Outcome{Kind: jobs.OutcomeCancel, Error: "app answered 200 OK, but its output cannot be stored: not valid JSON"}},
		{"json with NUL", 200, jsonType, `{"a":"\u0000"}`, jobs.Outcome{Kind: jobs.OutcomeCancel, Error: `remove NUL characters`}},
		{"packed json", 200, headers{"Content-Type": "application/json", "Content-Encoding": "gzip"}, "\x1f\x8b", jobs.Outcome{Kind: jobs.OutcomeCancel, Error: `Content-Encoding "gzip"`}},

		{"accepted", 202, jsonType, `{"ignored":true}`, jobs.Outcome{Kind: jobs.OutcomeAccepted}},

		{"moved", 301, headers{"Location": "http://elsewhere/"}, "", jobs.Outcome{Kind: jobs.OutcomeRetry, Error: `301 Moved Permanently (redirects are not followed; set the app's URL to where it handles tasks; Location: "http://elsewhere/")`}},
		{"see other", 303, nil, "", jobs.Outcome{Kind: jobs.OutcomeRetry, Error: "redirects are not followed"}},
		{"not modified", 304, nil, "", jobs.Outcome{Kind: jobs.OutcomeRetry, Error: "app answered 304"}},

		{"bad request", 400, nil, "no such user", jobs.Outcome{Kind: jobs.OutcomeCancel, Error: "app answered 400 Bad Request: no such user"}},
		{"gone", 410, nil, "", jobs.Outcome{Kind: jobs.OutcomeCancel, Error: "app answered 410 Gone"}},
		{"too large", 413, nil, "", jobs.Outcome{Kind: jobs.OutcomeCancel, Error: "app answered 413"}},
		{"media type", 415, nil, "", jobs.Outcome{Kind: jobs.OutcomeCancel, Error: "app answered 415"}},
		{"unprocessable", 422, soon, "", jobs.Outcome{Kind: jobs.OutcomeCancel, Error: "app answered 422"}},

		{"unknown kind", 404, nil, "404 page not found", jobs.Outcome{Kind: jobs.OutcomeHandBack, UnknownKind: true, Error: `no handler for kind "mail.send"; to end a task whose subject is gone, answer 410): 404 page not found`}},

		{"unauthorized", 401, nil, "", jobs.Outcome{Kind: jobs.OutcomeRetry, Error: "401 Unauthorized (it refuses the sidecar"}},
		{"forbidden", 403, nil, "", jobs.Outcome{Kind: jobs.OutcomeRetry, Error: "403 Forbidden (it refuses the sidecar"}},
		{"method not allowed", 405, nil, "", jobs.Outcome{Kind: jobs.OutcomeRetry, Error: "app answered 405"}},
		{"request timeout", 408, nil, "", jobs.Outcome{Kind: jobs.OutcomeRetry, Error: "app answered 408"}},
		{"conflict", 409, nil, "", jobs.Outcome{Kind: jobs.OutcomeRetry, Error: "app answered 409"}},
		{"teapot", 418, nil, "", jobs.Outcome{Kind: jobs.OutcomeRetry, Error: "app answered 418"}},
		{"too early", 425, soon, "", jobs.Outcome{Kind: jobs.OutcomeRetry, Delay: 30 * time.Second, Error: "app answered 425"}},
		{"header fields too large", 431, nil, "", jobs.Outcome{Kind: jobs.OutcomeRetry, Error: "app answered 431"}},
		{"of no standard", 499, nil, "", jobs.Outcome{Kind: jobs.OutcomeRetry, Error: "app answered 499"}},

		{"too many", 429, soon, "", jobs.Outcome{Kind: jobs.OutcomeSnooze, PauseKind: true, Delay: 30 * time.Second, Error: "app answered 429"}},
		{"unavailable", 503, headers{"Retry-After": "Sun, 01 Mar 2026 12:00:10 GMT"}, "", jobs.Outcome{Kind: jobs.OutcomeSnooze, PauseKind: true, Delay: 10 * time.Second, Error: "app answered 503"}},
		{"unavailable for long", 503, headers{"Retry-After": "86400"}, "", jobs.Outcome{Kind: jobs.OutcomeSnooze, PauseKind: true, Delay: time.Hour, Error: "app answered 503"}},
		{"too many, without a time", 429, nil, "", jobs.Outcome{Kind: jobs.OutcomeRetry, TurnedDown: true, Error: "app answered 429"}},
		{"unavailable, at no time", 503, headers{"Retry-After": "soon"}, "", jobs.Outcome{Kind: jobs.OutcomeRetry, TurnedDown: true, Error: "app answered 503"}},

		{"error", 500, nil, "panic: boom\n\tat x", jobs.Outcome{Kind: jobs.OutcomeRetry, Error: "app answered 500 Internal Server Error: panic: boom\n\tat x"}},
		{"error with a time", 500, soon, "", jobs.Outcome{Kind: jobs.OutcomeRetry, Delay: 30 * time.Second, Error: "app answered 500"}},
		{"not implemented", 501, nil, "", jobs.Outcome{Kind: jobs.OutcomeRetry, Error: "app answered 501"}},
		{"bad gateway", 502, nil, "", jobs.Outcome{Kind: jobs.OutcomeRetry, Error: "app answered 502"}},
		{"of no standard, too", 599, nil, "", jobs.Outcome{Kind: jobs.OutcomeRetry, Error: "app answered 599"}},

		{"error for good", 500, noRetry, "boom", jobs.Outcome{Kind: jobs.OutcomeCancel, Error: "app answered 500 Internal Server Error: boom"}},
		{"unavailable for good", 503, headers{"Retry-After": "30", "Sched-No-Retry": "True"}, "", jobs.Outcome{Kind: jobs.OutcomeCancel, Error: "app answered 503"}},
		{"not found for good", 404, noRetry, "", jobs.Outcome{Kind: jobs.OutcomeCancel, Error: "app answered 404"}},
		{"not for good", 500, headers{"Sched-No-Retry": "false"}, "", jobs.Outcome{Kind: jobs.OutcomeRetry, Error: "app answered 500"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := dispatchFor(t, newApp(t, answerWith(tc.status, tc.header, tc.body)), newTask())
			require.Contains(t, got.Error, tc.want.Error)
			require.Equal(t, tc.want.Error == "", got.Error == "")
			got.Error, tc.want.Error = "", ""
			require.Equal(t, tc.want, got)
		})
	}
}

func TestErrorTextIsStorable(t *testing.T) {
	t.Parallel()
	body := "a\x00b\xff\x1b[0m " + strings.Repeat("é", 1<<20)
	got := dispatchFor(t, newApp(t, answerWith(500, headers{"Content-Type": "text/plain"}, body)), newTask())

	require.Equal(t, jobs.OutcomeRetry, got.Kind)
	require.True(t, utf8.ValidString(got.Error))
	require.NotContains(t, got.Error, "\x00")
	require.LessOrEqual(t, len(got.Error), errorBytes)
	require.Contains(t, got.Error, "500 Internal Server Error: ab\ufffd [0m é")
	require.True(t, strings.HasSuffix(got.Error, "…"), "a cut is marked")
}
