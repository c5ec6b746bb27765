package jobs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/jobs"
)

// Metrics, logs and the SQL views share these names.
func TestOutcomeKindString(t *testing.T) {
	t.Parallel()

	for kind, want := range map[jobs.OutcomeKind]string{
		0:                     "unknown",
		jobs.OutcomeComplete:  "complete",
		jobs.OutcomeRetry:     "retry",
		jobs.OutcomeSnooze:    "snooze",
		jobs.OutcomeCancel:    "cancel",
		jobs.OutcomeDiscard:   "discard",
		jobs.OutcomeHandBack:  "handback",
		jobs.OutcomeAccepted:  "accepted",
		jobs.OutcomeKind(200): "unknown",
	} {
		require.Equal(t, want, kind.String())
	}
}
