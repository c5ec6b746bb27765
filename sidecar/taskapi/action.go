package taskapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/sidecar/answer"
)

const (
	// MaxDelay is the longest delay_ms of a retry or snooze.
	MaxDelay = 30 * 24 * time.Hour

	// errorBytes bounds an error text, which is stored per attempt.
	errorBytes = 8 << 10
)

// decoder makes an outcome of a request's body. Its error is for the app.
type decoder func(body []byte) (jobs.Outcome, error)

// actions by the last segment of the path.
func actions() map[string]decoder {
	return map[string]decoder{
		"complete": decodeComplete,
		"retry":    decodeRetry,
		"snooze":   decodeSnooze,
		"cancel":   decodeCancel,
	}
}

func decodeComplete(body []byte) (jobs.Outcome, error) {
	output := bytes.TrimSpace(body)
	if len(output) == 0 {
		return jobs.Outcome{Kind: jobs.OutcomeComplete}, nil
	}
	if err := answer.Output(output); err != nil {
		return jobs.Outcome{}, fmt.Errorf("the %w; the task is still running: complete it again, with an empty body for no output", err)
	}
	return jobs.Outcome{Kind: jobs.OutcomeComplete, Output: output}, nil
}

func decodeRetry(body []byte) (jobs.Outcome, error) {
	var request struct {
		Error   string `json:"error"`
		DelayMS int64  `json:"delay_ms"`
	}
	if err := decodeObject(body, &request); err != nil {
		return jobs.Outcome{}, err
	}
	delay, err := delayOf(request.DelayMS, 0)
	if err != nil {
		return jobs.Outcome{}, err
	}
	return jobs.Outcome{
		Kind:  jobs.OutcomeRetry,
		Error: errorText(request.Error, "the app reported a failure without a reason"),
		Delay: delay,
	}, nil
}

func decodeSnooze(body []byte) (jobs.Outcome, error) {
	var request struct {
		DelayMS int64 `json:"delay_ms"`
	}
	if err := decodeObject(body, &request); err != nil {
		return jobs.Outcome{}, err
	}
	// A snooze spends no attempt, so one without delay could go on for ever.
	delay, err := delayOf(request.DelayMS, 1)
	if err != nil {
		return jobs.Outcome{}, err
	}
	return jobs.Outcome{Kind: jobs.OutcomeSnooze, Delay: delay}, nil
}

func decodeCancel(body []byte) (jobs.Outcome, error) {
	var request struct {
		Error string `json:"error"`
	}
	if err := decodeObject(body, &request); err != nil {
		return jobs.Outcome{}, err
	}
	return jobs.Outcome{
		Kind:  jobs.OutcomeCancel,
		Error: errorText(request.Error, "the app cancelled the task without a reason"),
	}, nil
}

// decodeObject reads a body of one JSON object, or an empty one, into request.
func decodeObject(body []byte, request any) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(request); err != nil {
		return fmt.Errorf("the body cannot be read: %w; send a JSON object with the fields that docs/http.md names", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("the body holds more than one JSON value; send one object")
	}
	return nil
}

func delayOf(ms, least int64) (time.Duration, error) {
	if most := MaxDelay.Milliseconds(); ms < least || ms > most {
		return 0, fmt.Errorf("delay_ms is %d; send milliseconds from %d to %d", ms, least, most)
	}
	return time.Duration(ms) * time.Millisecond, nil
}

func errorText(text, otherwise string) string {
	if text = answer.Text(text, errorBytes); text == "" {
		return otherwise
	}
	return text
}
