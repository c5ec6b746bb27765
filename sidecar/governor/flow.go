package governor

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	whyRate       = "rate"
	whyMaxRunning = "max_running"
	whyBusy       = "busy"

	// blockMax is how long a limit counts as used up without being asked again: an
	// operator may have raised it, unheard.
	blockMax = 10 * time.Second

	// pauseNews is by how much a pause must end later to be worth telling the fleet.
	pauseNews = 500 * time.Millisecond
	// pauseBridge is how long a pause holds here without the policy saying so. The
	// policy has it by then, unless an operator ended it.
	pauseBridge = 10 * time.Second
)

// flows remembers which limits let nothing through now, and which kinds are
// paused because the app said so, until the fleet's own word of it is here.
type flows struct {
	mu      sync.Mutex
	blocked map[string]flowBlock
	paused  map[string]kindPause
}

type kindPause struct{ until, bridge time.Time }

type flowBlock struct {
	why   string
	until time.Time
}

// block records what a claim reported, and returns when to try again; zero: no
// need.
func (f *flows) block(now time.Time, results []flowResult) (retry time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.blocked == nil {
		f.blocked = map[string]flowBlock{}
	}
	for key, block := range f.blocked {
		if !now.Before(block.until) {
			delete(f.blocked, key)
		}
	}
	for _, result := range results {
		// Spread a little: those that wait for the same limit must not come together.
		wait := time.Duration(min(result.RetryMS, float64(blockMax.Milliseconds())) * (1 + 0.2*rand.Float64()) * float64(time.Millisecond))
		if result.Why == whyBusy {
			wait = time.Millisecond + rand.N(3*time.Millisecond)
		}
		until := now.Add(max(wait, time.Millisecond))
		f.blocked[result.Flow] = flowBlock{why: result.Why, until: until}
		if retry.IsZero() || until.Before(retry) {
			retry = until
		}
	}
	return retry
}

// unblock forgets that a queue's max_running was reached, since one of its tasks
// has ended, and reports whether it was.
func (f *flows) unblock(queue string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := flowOfQueue(queue)
	if f.blocked[key].why != whyMaxRunning {
		return false
	}
	delete(f.blocked, key)
	return true
}

// reconsider forgets which limits were used up: they may have been changed.
func (f *flows) reconsider() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.blocked)
}

// isBlocked reports whether a flow lets nothing through now.
func (f *flows) isBlocked(key string, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return now.Before(f.blocked[key].until)
}

// nextTry is when the first of the flows that let nothing through is tried again;
// zero: none is waited for.
func (f *flows) nextTry(now time.Time) (first time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, block := range f.blocked {
		if now.Before(block.until) && (first.IsZero() || block.until.Before(first)) {
			first = block.until
		}
	}
	return first
}

// pause leaves a kind out until a time, and reports whether that is news.
func (f *flows) pause(kind string, until, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.paused == nil {
		f.paused = map[string]kindPause{}
	}
	for known, pause := range f.paused {
		if !now.Before(pause.bridge) { // from then on the fleet's word counts, which may be that an operator ended it
			delete(f.paused, known)
		}
	}
	if !f.paused[kind].until.Add(pauseNews).Before(until) {
		return false
	}
	bridge := now.Add(pauseBridge)
	if until.Before(bridge) {
		bridge = until
	}
	f.paused[kind] = kindPause{until: until, bridge: bridge}
	return true
}

// pauses returns until when this sidecar's own app has kinds paused, for as long
// as the policy need not know of it.
func (f *flows) pauses(now time.Time) map[string]time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	var paused map[string]time.Time
	for kind, pause := range f.paused {
		if !now.Before(pause.bridge) {
			continue
		}
		if paused == nil {
			paused = map[string]time.Time{}
		}
		paused[kind] = pause.bridge
	}
	return paused
}

// texts says in words which limits let nothing through, sorted; never nil.
func (f *flows) texts(now time.Time) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	texts := []string{}
	for key, block := range f.blocked {
		if now.Before(block.until) && block.why != whyBusy {
			scope, name, _ := strings.Cut(key, ":")
			texts = append(texts, fmt.Sprintf("%s %s: %s, next in %s", scope, name, block.why, shown(block.until.Sub(now))))
		}
	}
	slices.Sort(texts)
	return texts
}

// shown is a duration to the millisecond.
func shown(d time.Duration) time.Duration { return max(d, time.Millisecond).Round(time.Millisecond) }
