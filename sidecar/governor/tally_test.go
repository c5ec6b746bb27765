package governor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/jobs"
)

func TestTally(t *testing.T) {
	t.Parallel()
	var c tally
	at := func(ms int) time.Time { return time.Unix(0, 0).Add(time.Duration(ms) * time.Millisecond) }
	c.take(at(0))
	c.begin(at(0))
	c.begin(at(250))
	require.True(t, c.outcome(at(400), time.Time{}, &jobs.Outcome{Kind: jobs.OutcomeComplete}))
	c.end(at(500), &attemptTimes{asked: at(-20), started: at(0), ended: at(400), tells: true})
	require.False(t, c.outcome(at(750), at(700), &jobs.Outcome{Kind: jobs.OutcomeRetry}))
	c.end(at(750), &attemptTimes{})
	for _, outcome := range []jobs.Outcome{{Kind: jobs.OutcomeSnooze, PauseKind: true}, {Kind: jobs.OutcomeRetry, TurnedDown: true}, {Kind: jobs.OutcomeHandBack}, {Kind: jobs.OutcomeRetry, AppDown: true}} {
		c.begin(at(750))
		require.False(t, c.outcome(at(750), time.Time{}, &outcome))
		c.end(at(750), &attemptTimes{})
	}
	require.Equal(t, Tally{
		Since: time.Second, Claimed: 6, Ended: 1, Held: 520 * time.Millisecond, PushBack: 3, Running: 1, Peak: 2,
	}, c.take(at(1000)))

	c.begin(at(1000))
	require.Equal(t, Tally{Since: time.Second, Claimed: 1, Running: 1, Peak: 1}, c.take(at(2000)))
	require.Equal(t, Tally{Since: time.Second, Running: 1, Peak: 1}, c.take(at(3000)), "what goes on counts")
	c.end(at(23_000), &attemptTimes{asked: at(900), started: at(1000), ended: at(3000), tells: true})
	require.Equal(t, 2*time.Second+2*overheadMax, c.take(at(23_000)).Held, "Postgres was away")
}
