package governor

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// tokenBatch is how long the bucket fills at most before an empty one is asked
// again: a claim for each single token would cost more than the tasks.
const tokenBatch = 10 * time.Millisecond

// tokens is the bucket that protects this sidecar's app: so many tasks a second,
// with a reserve for bursts. Tokens are looked at before a claim and taken after
// it, for the tasks that it got; there is one claim at a time. Its zero value lets
// everything through.
type tokens struct {
	limiter *rate.Limiter
}

func newTokens(perSecond float64, burst int) tokens {
	if perSecond <= 0 {
		return tokens{}
	}
	return tokens{limiter: rate.NewLimiter(rate.Limit(perSecond), burst)}
}

// available returns how many tasks may be claimed now.
func (t tokens) available(now time.Time) int {
	if t.limiter == nil {
		return math.MaxInt
	}
	return max(0, int(t.limiter.TokensAt(now)))
}

// take spends n tokens, of those that were available.
func (t tokens) take(now time.Time, n int) {
	if t.limiter != nil && n > 0 {
		t.limiter.AllowN(now, n)
	}
}

// wait returns how long it is until a claim for up to n tasks is worth it; 0: now.
func (t tokens) wait(now time.Time, n int) time.Duration {
	if t.limiter == nil {
		return 0
	}
	perSecond := float64(t.limiter.Limit())
	has := t.limiter.TokensAt(now)
	if has >= 1 {
		return 0
	}
	worth := max(1, min(float64(n), float64(t.limiter.Burst()), perSecond*tokenBatch.Seconds()))
	return time.Duration(math.Ceil((worth - has) / perSecond * float64(time.Second)))
}

// alarm calls ring at the earliest of the times that it was set to.
type alarm struct {
	ring func()

	mu    sync.Mutex
	next  time.Time
	timer *time.Timer
}

// set has the alarm ring at a time, or before.
func (a *alarm) set(at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.next.IsZero() && !at.Before(a.next) {
		return
	}
	if a.timer != nil {
		a.timer.Stop()
	}
	a.next = at
	a.timer = time.AfterFunc(time.Until(at), func() {
		a.mu.Lock()
		if a.next.Equal(at) {
			a.next = time.Time{}
		}
		a.mu.Unlock()
		a.ring()
	})
}
