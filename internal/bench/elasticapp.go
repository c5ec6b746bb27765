package bench

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// pathRefuse tells an app to turn its tasks down for a while: ?for=10s.
const pathRefuse = "/bench/refuse"

// refusePause is the Retry-After of an app that turns tasks down, in seconds.
const refusePause = 1

// appModel is what limits an app: others that it waits for, a downstream that works
// on so many tasks at once, or its cores.
type appModel struct {
	work    time.Duration // that it waits
	spin    int           // rounds that it computes
	places  chan struct{} // of the downstream; nil: any number
	refuses atomic.Int64  // until then, in nanoseconds of the machine's clock
}

func newAppModel(work time.Duration, width, spin int) *appModel {
	m := &appModel{work: work, spin: spin}
	if width > 0 {
		m.places = make(chan struct{}, width)
	}
	return m
}

// take works on a task. The error says that the sidecar has hung up.
func (m *appModel) take(ctx context.Context) error {
	if m.places != nil {
		select {
		case m.places <- struct{}{}:
			defer func() { <-m.places }()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if m.spin > 0 && compute(m.spin) == 0 {
		return fmt.Errorf("%d rounds came to nothing", m.spin)
	}
	if m.work > 0 {
		return pause(ctx, m.work)
	}
	return nil
}

// turnsDown answers for an app that takes no tasks now.
func (m *appModel) turnsDown(w http.ResponseWriter) bool {
	if time.Now().UnixNano() >= m.refuses.Load() {
		return false
	}
	w.Header().Set("Retry-After", strconv.Itoa(refusePause))
	http.Error(w, "too much at once", http.StatusTooManyRequests)
	return true
}

// routes serves the bench process.
func (m *appModel) routes(mux *http.ServeMux) {
	mux.HandleFunc("GET "+pathRefuse, func(w http.ResponseWriter, r *http.Request) {
		length, err := time.ParseDuration(r.URL.Query().Get("for"))
		if err != nil || length < 0 {
			http.Error(w, "for is no duration", http.StatusBadRequest)
			return
		}
		m.refuses.Store(time.Now().Add(length).UnixNano())
	})
}

// compute keeps a core busy for a number of rounds, and never comes to 0: it is a
// piece of work and not a piece of time, so that tasks that share a core take longer.
func compute(rounds int) uint64 {
	x := uint64(88172645463325252)
	for range rounds {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// roundsFor is how many rounds keep an idle core busy for a time: by the fastest of
// some tries, which others disturbed the least.
func roundsFor(length time.Duration) int {
	const tries, probe = 20, 1_000_000
	fastest := time.Hour
	for range tries {
		begin := time.Now()
		if compute(probe) == 0 {
			break
		}
		fastest = min(fastest, time.Since(begin))
	}
	return max(1, int(float64(probe)*float64(length)/float64(max(fastest, 1))))
}
