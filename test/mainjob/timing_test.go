package mainjob_test

import (
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// latency is how late a timed task may start on a busy test machine. The
// promoter's own exactness is the benchmark's business.
const latency = 15 * time.Second

func TestDeadline(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := newApp(t, nil)
	a.handle = func(c *call) answer {
		if len(a.callsOf(c.id)) == 1 || c.maxAttempts == 1 {
			<-c.ctx.Done()
		}
		return answer{status: http.StatusOK}
	}
	f.start(a, nil)

	const timeout = 3 * time.Second
	again := enqueue(t, f.db, "slow", with("timeout", timeout))
	last := enqueue(t, f.db, "slow", with("timeout", timeout), with("max_attempts", 1))
	for _, id := range []int64{again, last} {
		c := a.await(t, id, 1, soon)
		require.WithinDuration(t, c.began.Add(timeout), c.deadline, latency, "Sched-Deadline")
		awaitEnd(t, c) // it ends because the sidecar hangs up
		require.WithinDuration(t, c.began.Add(timeout), time.Now(), latency)
	}

	k := awaitStatus(t, f.db, last, "discarded", soon)
	require.Contains(t, text(k.Error), "deadline")
	awaitStatus(t, f.db, again, "completed", soon)
	attempts := readAttempts(t, f.db, again)
	require.Equal(t, []string{"retry", "completed"}, outcomes(attempts))
	require.Contains(t, text(attempts[0].Error), "deadline")
	require.Equal(t, 2, a.callsOf(again)[1].attempt, "a missed deadline spends an attempt")
}

func TestRetryTimes(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	const failures = 5
	a := newApp(t, nil)
	a.handle = func(c *call) answer {
		if c.attempt <= failures {
			return answer{status: http.StatusInternalServerError, body: "not yet"}
		}
		return answer{status: http.StatusOK}
	}
	f.start(a, nil).awaitLeading(t)

	delays := make(map[time.Duration]bool)
	for _, id := range enqueueMany(t, f.db, "failing", 20) {
		awaitStatus(t, f.db, id, "completed", soon)
		attempts := readAttempts(t, f.db, id)
		require.Len(t, attempts, failures+1)
		calls := a.callsOf(id)
		require.Len(t, calls, failures+1)
		for n := range failures {
			require.Equal(t, "retry", text(attempts[n].Outcome))
			require.Contains(t, text(attempts[n].Error), "not yet")
			// 100 ms × 2ⁿ ± 20 % from the settle, which follows the answer; what is
			// over is the settle, the promotion and the claim.
			nominal := time.Duration(float64(100*time.Millisecond) * math.Pow(2, float64(n)))
			delay := calls[n+1].began.Sub(calls[n].endedAt)
			require.GreaterOrEqualf(t, delay, nominal*8/10, "retry %d", n+1)
			require.LessOrEqualf(t, delay, nominal*12/10+latency, "retry %d", n+1)
			if n == failures-1 {
				delays[delay.Round(10*time.Millisecond)] = true
			}
		}
	}
	require.Greater(t, len(delays), 3, "jitter keeps tasks that failed together apart: %v", delays)
}

func TestRetriesAreSpent(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := newApp(t, func(*call) answer { return answer{status: http.StatusInternalServerError, body: "never"} })
	f.start(a, nil)
	id := enqueue(t, f.db, "failing", with("max_attempts", 3))
	k := awaitStatus(t, f.db, id, "discarded", soon)
	require.Equal(t, 3, k.Attempt)
	require.Contains(t, text(k.Error), "never")
	require.Len(t, a.callsOf(id), 3)
	for i, c := range a.callsOf(id) {
		require.Equal(t, i+1, c.attempt)
		require.Equal(t, 3, c.maxAttempts)
	}
}

func TestSnoozeSpendsNoAttempt(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]int{"429": http.StatusTooManyRequests, "503": http.StatusServiceUnavailable} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			a := newApp(t, nil)
			a.handle = func(c *call) answer {
				switch len(a.callsOf(c.id)) {
				case 1:
					return answer{status: status, header: map[string]string{"Retry-After": "1"}}
				case 2: // the other form of Retry-After, in whole seconds
					return answer{status: status, header: map[string]string{"Retry-After": time.Now().Add(2 * time.Second).UTC().Format(http.TimeFormat)}}
				}
				return answer{status: http.StatusOK}
			}
			f.start(a, nil).awaitLeading(t)
			id := enqueue(t, f.db, "throttled", with("max_attempts", 1))
			k := awaitStatus(t, f.db, id, "completed", soon)
			require.Equal(t, 2, k.Snoozes)
			require.Equal(t, 1, k.Attempt)

			calls := a.callsOf(id)
			require.Len(t, calls, 3)
			for _, c := range calls {
				require.Equal(t, 1, c.attempt, "a snooze spends no attempt")
			}
			require.GreaterOrEqual(t, calls[1].began.Sub(calls[0].began), time.Second, "Retry-After in seconds")
			require.LessOrEqual(t, calls[1].began.Sub(calls[0].began), time.Second+2*latency)
			require.GreaterOrEqual(t, calls[2].began.Sub(calls[1].began), time.Second, "Retry-After as a date")
			require.LessOrEqual(t, calls[2].began.Sub(calls[1].began), 2*time.Second+2*latency)
			require.Equal(t, []string{"snooze", "snooze", "completed"}, outcomes(readAttempts(t, f.db, id)))
		})
	}
}

func TestScheduledTaskStartsOnTime(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := newApp(t, nil)
	f.start(a, nil).awaitLeading(t)
	at := time.Now().Add(3 * time.Second)
	id := enqueue(t, f.db, "later", with("run_at", at))
	require.Equal(t, "scheduled", readTask(t, f.db, id).Status)
	c := a.await(t, id, 1, soon)
	require.False(t, c.began.Before(at.Truncate(time.Millisecond)), "%s early", at.Sub(c.began))
	require.WithinDuration(t, at, c.began, latency)
}
