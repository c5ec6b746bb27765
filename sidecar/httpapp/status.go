package httpapp

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/sidecar/answer"
)

// errorBytes bounds the error text of an outcome, which is stored per attempt.
const errorBytes = 2 << 10

// outcomeOf is the status table of docs/http.md.
func outcomeOf(r reply, kind string, now time.Time) jobs.Outcome {
	switch {
	case r.status == http.StatusAccepted:
		return jobs.Outcome{Kind: jobs.OutcomeAccepted}
	case r.status >= 200 && r.status < 300:
		return completed(r)
	case strings.EqualFold(strings.TrimSpace(r.header.Get(headerNoRetry)), "true"):
		return jobs.Outcome{Kind: jobs.OutcomeCancel, Error: describe(r, kind)}
	}
	delay, told := retryAfter(r.header.Get(headerRetryAfter), now)
	switch r.status {
	case http.StatusNotFound:
		return jobs.Outcome{Kind: jobs.OutcomeHandBack, UnknownKind: true, Error: describe(r, kind)}
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if told {
			return jobs.Outcome{Kind: jobs.OutcomeSnooze, PauseKind: true, Delay: delay, Error: describe(r, kind)}
		}
		return jobs.Outcome{Kind: jobs.OutcomeRetry, TurnedDown: true, Error: describe(r, kind)}
	case http.StatusBadRequest, http.StatusGone, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return jobs.Outcome{Kind: jobs.OutcomeCancel, Error: describe(r, kind)}
	}
	// Without a Retry-After the delay is 0: the retry policy's own.
	return jobs.Outcome{Kind: jobs.OutcomeRetry, Delay: delay, Error: describe(r, kind)}
}

// completed is the outcome of a 2xx response other than 202.
func completed(r reply) jobs.Outcome {
	output := bytes.TrimSpace(r.body)
	if len(output) == 0 {
		return jobs.Outcome{Kind: jobs.OutcomeComplete}
	}
	err := answer.Output(output)
	if err == nil {
		return jobs.Outcome{Kind: jobs.OutcomeComplete, Output: output}
	}
	if encoding := r.header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		err = fmt.Errorf("%w: it has Content-Encoding %q, send it unencoded", answer.ErrOutput, encoding)
	}
	// The effect has happened, so a retry would repeat it; and dropping the
	// output would call a task well that isn't.
	return jobs.Outcome{
		Kind:  jobs.OutcomeCancel,
		Error: answer.Text(fmt.Sprintf("app answered %s, but its %v", statusLine(r.status), err), errorBytes),
	}
}

// describe is the error text of a response other than 2xx: the status, what to
// do about it where that's known, and the start of the body.
func describe(r reply, kind string) string {
	text := "app answered " + statusLine(r.status)
	switch {
	case r.status >= 300 && r.status < 400:
		text += fmt.Sprintf(" (redirects are not followed; set the app's URL to where it handles tasks; Location: %q)", r.header.Get("Location"))
	case r.status == http.StatusNotFound:
		text += fmt.Sprintf(" (no handler for kind %q; to end a task whose subject is gone, answer 410)", kind)
	case r.status == http.StatusUnauthorized, r.status == http.StatusForbidden:
		text += " (it refuses the sidecar; compare the secret on both sides)"
	}
	if snippet := bytes.TrimSpace(r.body); len(snippet) > 0 {
		text += ": " + string(snippet)
	}
	return answer.Text(text, errorBytes)
}

func statusLine(status int) string {
	line := strconv.Itoa(status)
	if text := http.StatusText(status); text != "" {
		line += " " + text
	}
	return line
}
