package jobs_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sched-sidecar/sched/jobs"
)

func TestRetryPolicyDelay(t *testing.T) {
	t.Parallel()

	const shortest, middle, longest = 0, 0.5, 1
	plain := jobs.DefaultRetryPolicy()
	plain.Jitter = 0
	steady := jobs.RetryPolicy{Base: time.Second, Factor: 1, Cap: time.Minute, Jitter: 0.5}

	for _, tc := range []struct {
		name     string
		policy   jobs.RetryPolicy
		failures int
		rnd      float64
		want     time.Duration
	}{
		{"first failure", jobs.DefaultRetryPolicy(), 0, middle, 100 * time.Millisecond},
		{"first failure, shortest", jobs.DefaultRetryPolicy(), 0, shortest, 80 * time.Millisecond},
		{"first failure, longest", jobs.DefaultRetryPolicy(), 0, longest, 120 * time.Millisecond},
		{"second failure", jobs.DefaultRetryPolicy(), 1, middle, 200 * time.Millisecond},
		{"sixth failure", jobs.DefaultRetryPolicy(), 5, middle, 3200 * time.Millisecond},
		{"last one under the cap", jobs.DefaultRetryPolicy(), 11, middle, 204800 * time.Millisecond},
		{"last one under the cap, longest", jobs.DefaultRetryPolicy(), 11, longest, 245760 * time.Millisecond},
		{"at the cap, shortest", jobs.DefaultRetryPolicy(), 12, shortest, 4 * time.Minute},
		{"at the cap, middle", jobs.DefaultRetryPolicy(), 12, middle, 4*time.Minute + 30*time.Second},
		{"at the cap, longest", jobs.DefaultRetryPolicy(), 12, longest, 5 * time.Minute},
		{"power overflows", jobs.DefaultRetryPolicy(), math.MaxInt, longest, 5 * time.Minute},
		{"negative failures are none", jobs.DefaultRetryPolicy(), -3, middle, 100 * time.Millisecond},
		{"random number too small", jobs.DefaultRetryPolicy(), 0, -7, 80 * time.Millisecond},
		{"random number too large", jobs.DefaultRetryPolicy(), 0, 7, 120 * time.Millisecond},
		{"random number is none", jobs.DefaultRetryPolicy(), 0, math.NaN(), 80 * time.Millisecond},
		{"no jitter", plain, 3, shortest, 800 * time.Millisecond},
		{"no jitter at the cap", plain, 40, shortest, 5 * time.Minute},
		{"factor 1 stays", steady, 1000, middle, time.Second},
		{
			"cap is the largest duration",
			jobs.RetryPolicy{Base: time.Hour, Factor: 10, Cap: math.MaxInt64, Jitter: 0.5},
			400, longest, math.MaxInt64,
		},
		{
			"never nothing",
			jobs.RetryPolicy{Base: 1, Factor: 1, Cap: 1, Jitter: 0.9},
			0, shortest, 1,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.InDelta(t, tc.want, tc.policy.Delay(tc.failures, tc.rnd), 1)
		})
	}
}

func TestRetryPolicyValidate(t *testing.T) {
	t.Parallel()

	require.NoError(t, jobs.DefaultRetryPolicy().Validate())

	for name, tc := range map[string]struct {
		change func(*jobs.RetryPolicy)
		want   string
	}{
		"no base":          {func(p *jobs.RetryPolicy) { p.Base = 0 }, "base 0s must be over 0"},
		"cap under base":   {func(p *jobs.RetryPolicy) { p.Cap = time.Millisecond }, "cap 1ms must not be under the base 100ms"},
		"factor under 1":   {func(p *jobs.RetryPolicy) { p.Factor = 0.5 }, "factor 0.5 must be 1 or more"},
		"factor no number": {func(p *jobs.RetryPolicy) { p.Factor = math.NaN() }, "factor NaN must be 1 or more"},
		"factor infinite":  {func(p *jobs.RetryPolicy) { p.Factor = math.Inf(1) }, "factor +Inf must be 1 or more"},
		"jitter negative":  {func(p *jobs.RetryPolicy) { p.Jitter = -0.1 }, "jitter -0.1 must be 0 or more, and under 1"},
		"jitter all":       {func(p *jobs.RetryPolicy) { p.Jitter = 1 }, "jitter 1 must be 0 or more, and under 1"},
		"jitter no number": {func(p *jobs.RetryPolicy) { p.Jitter = math.NaN() }, "jitter NaN must be 0 or more, and under 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policy := jobs.DefaultRetryPolicy()
			tc.change(&policy)
			err := policy.Validate()
			require.ErrorIs(t, err, jobs.ErrInvalidArgument)
			require.ErrorContains(t, err, tc.want)
		})
	}

	t.Run("all at once", func(t *testing.T) {
		t.Parallel()
		err := jobs.RetryPolicy{Cap: -1, Jitter: 2}.Validate()
		for _, part := range []string{"base", "cap", "factor", "jitter"} {
			require.ErrorContains(t, err, part)
		}
	})
}

func TestRetryPolicyProperties(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(t *rapid.T) {
		base := rapid.Int64Range(1, math.MaxInt64).Draw(t, "base")
		policy := jobs.RetryPolicy{
			Base:   time.Duration(base),
			Factor: rapid.Float64Range(1, math.MaxFloat64).Draw(t, "factor"),
			Cap:    time.Duration(rapid.Int64Range(base, math.MaxInt64).Draw(t, "cap")),
			Jitter: rapid.Float64Range(0, math.Nextafter(1, 0)).Draw(t, "jitter"),
		}
		require.NoError(t, policy.Validate())
		failures := rapid.IntRange(0, math.MaxInt-1).Draw(t, "failures")
		rnd := rapid.Float64Range(0, 1).Draw(t, "rnd")

		wait := policy.Delay(failures, rnd)
		require.Positive(t, wait)
		require.LessOrEqual(t, wait, policy.Cap)
		require.LessOrEqual(t, wait, policy.Delay(failures+1, rnd), "a later failure waits shorter")
		require.LessOrEqual(t, policy.Delay(failures, 0), wait)
		require.GreaterOrEqual(t, policy.Delay(failures, 1), wait)
	})
}

// The documented spread: within ± 20 % of 100 ms × 2ⁿ and never over 5 min,
// with no pile at either end.
func TestDefaultRetryPolicySpread(t *testing.T) {
	t.Parallel()

	policy := jobs.DefaultRetryPolicy()
	for failures := range 25 {
		nominal := min(100*time.Millisecond<<failures, 5*time.Minute)
		seen := map[time.Duration]bool{}
		for i := range 100 {
			wait := policy.Delay(failures, float64(i)/100)
			seen[wait] = true
			require.GreaterOrEqual(t, wait, nominal*8/10-1)
			require.LessOrEqual(t, wait, min(nominal*12/10+1, 5*time.Minute))
		}
		require.Len(t, seen, 100, "failures %d: waits fall together", failures)
	}
}
