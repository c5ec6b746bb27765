package jobs

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// RetryPolicy says how long a failed task waits before its next attempt. Wait
// n (n failures before this one) is nominally Base × Factorⁿ, at most Cap,
// and is then spread evenly over ± Jitter of itself, so that tasks that
// failed together don't return together.
//
// Cap is a hard bound: the jitter never exceeds it. A wait at the cap is
// spread over its lower half only, from Cap × (1 − Jitter) to Cap, rather than
// cut off there, which would let half of all tasks return at the same moment.
type RetryPolicy struct {
	// Base is the nominal wait after the first failure. Over 0.
	Base time.Duration
	// Factor multiplies the wait with each further failure. 1 or more.
	Factor float64
	// Cap is the longest wait. Base or more.
	Cap time.Duration
	// Jitter is the part of the wait by which it may be shorter or longer:
	// 0 (none) or more, under 1, since a wait must never shrink to nothing.
	Jitter float64
}

// DefaultRetryPolicy waits 100 ms, 200 ms, 400 ms … up to 5 minutes, ± 20 %.
// With the default of 25 attempts a task is given up after about an hour.
func DefaultRetryPolicy() RetryPolicy {
	return RetryPolicy{Base: 100 * time.Millisecond, Factor: 2, Cap: 5 * time.Minute, Jitter: 0.2}
}

// Validate returns all that is wrong with the policy, each as
// [ErrInvalidArgument], or nil.
func (p RetryPolicy) Validate() error {
	var errs []error
	refuse := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: retry policy: "+format, append([]any{ErrInvalidArgument}, args...)...))
	}
	if p.Base <= 0 {
		refuse("base %s must be over 0", p.Base)
	}
	if p.Cap < p.Base {
		refuse("cap %s must not be under the base %s", p.Cap, p.Base)
	}
	// Written so that NaN is refused too.
	if !(p.Factor >= 1) || math.IsInf(p.Factor, 1) {
		refuse("factor %v must be 1 or more", p.Factor)
	}
	if !(p.Jitter >= 0 && p.Jitter < 1) {
		refuse("jitter %v must be 0 or more, and under 1", p.Jitter)
	}
	return errors.Join(errs...)
}

// Delay returns how long a task waits that had failed failures times before
// the failure at hand: 0 for its first. Rnd, a random number from 0 to 1,
// places the wait within the jitter: 0 is the shortest; a number outside counts
// as the nearest of the two. The policy must be valid; then the result is at
// least 1 ns, at most Cap, and never falls as failures rise.
func (p RetryPolicy) Delay(failures int, rnd float64) time.Duration {
	limit := float64(p.Cap)
	// Pow overflows to +Inf, and min brings that back to the cap.
	nominal := min(float64(p.Base)*math.Pow(p.Factor, float64(max(failures, 0))), limit)
	shortest := nominal * (1 - p.Jitter)
	longest := min(nominal*(1+p.Jitter), limit)
	if !(rnd >= 0) { // negative, or no number at all
		rnd = 0
	}
	wait := shortest + min(rnd, 1)*(longest-shortest)
	if wait >= limit {
		// Also keeps a cap near the largest Duration from overflowing.
		return p.Cap
	}
	return max(time.Duration(wait), 1)
}
