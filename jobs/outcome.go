package jobs

import (
	"encoding/json"
	"time"
)

// OutcomeKind says how an attempt ended.
type OutcomeKind uint8

// The outcomes of an attempt. Only Complete, Retry, Cancel and Discard spend it.
const (
	// OutcomeComplete ends the task well.
	OutcomeComplete OutcomeKind = iota + 1
	// OutcomeRetry records a failure; the task runs again later, or is
	// discarded when its attempts are spent.
	OutcomeRetry
	// OutcomeSnooze puts the task off without spending the attempt.
	OutcomeSnooze
	// OutcomeCancel ends the task for good: trying again is pointless.
	OutcomeCancel
	// OutcomeDiscard ends the task as failed, whatever attempts are left.
	OutcomeDiscard
	// OutcomeHandBack makes the task available again at once, unspent: it was
	// never the task's fault (shutdown, fence, an app that lacks its kind).
	OutcomeHandBack
	// OutcomeAccepted says that the app took the task and settles it later.
	OutcomeAccepted
)

// String names the kind as metrics and logs show it.
func (k OutcomeKind) String() string {
	switch k {
	case OutcomeComplete:
		return "complete"
	case OutcomeRetry:
		return "retry"
	case OutcomeSnooze:
		return "snooze"
	case OutcomeCancel:
		return "cancel"
	case OutcomeDiscard:
		return "discard"
	case OutcomeHandBack:
		return "handback"
	case OutcomeAccepted:
		return "accepted"
	default:
		return "unknown"
	}
}

// Outcome is what an attempt came to.
type Outcome struct {
	Kind OutcomeKind

	// Output is stored with a completed task. Nil or valid JSON.
	Output json.RawMessage

	// Error says what went wrong, for Retry, Cancel and Discard, or why it is handed back.
	Error string

	// Delay is how long a Snooze lasts, or overrides the retry policy for a
	// Retry. Zero means the policy's own delay for a Retry, none for a Snooze.
	Delay time.Duration

	// UnknownKind marks a HandBack because this app has no handler for the
	// task's kind: the sidecar stops claiming that kind for a while.
	UnknownKind bool

	// PauseKind marks a Snooze with which the app asks for a pause of the task's
	// kind, not of the task alone: the fleet claims none of it for Delay.
	PauseKind bool
	// TurnedDown marks a Retry of an attempt that the app had no room for: it tells
	// nothing of how long tasks take.
	TurnedDown bool

	// AppDown marks a HandBack because the app took no connection: it never saw
	// the task. Nothing more is claimed until it is back.
	AppDown bool
}
