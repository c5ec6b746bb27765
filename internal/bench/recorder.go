package bench

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Paths of what a worker process tells the bench process.
const (
	pathWait   = "/bench/wait"   // ?n=: answers once n tasks have started
	pathStarts = "/bench/starts" // all recorded starts
)

// taskStart is when a handler began, in nanoseconds of the machine's clock.
type taskStart struct {
	TaskID int64 `json:"task_id"`
	Nanos  int64 `json:"nanos"`
}

// recorder counts the tasks that start in this process and, if asked to, when.
type recorder struct {
	count  atomic.Int64
	target atomic.Int64  // 0: nobody waits
	hit    chan struct{} // capacity 1: the target is reached
	keep   bool

	mu     sync.Mutex
	starts []taskStart
}

func newRecorder(keep bool) *recorder { return &recorder{hit: make(chan struct{}, 1), keep: keep} }

// record is called when a handler begins.
func (r *recorder) record(taskID int64) {
	if r.keep {
		now := time.Now().UnixNano()
		r.mu.Lock()
		r.starts = append(r.starts, taskStart{taskID, now})
		r.mu.Unlock()
	}
	if n, target := r.count.Add(1), r.target.Load(); target > 0 && n >= target {
		r.signal()
	}
}

func (r *recorder) signal() {
	select {
	case r.hit <- struct{}{}:
	default:
	}
}

// routes serves the bench process, one request at a time.
func (r *recorder) routes(mux *http.ServeMux) {
	mux.HandleFunc("GET "+pathWait, r.wait)
	mux.HandleFunc("GET "+pathStarts, func(w http.ResponseWriter, _ *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(r.starts) // the bench process may be gone
	})
}

func (r *recorder) wait(w http.ResponseWriter, request *http.Request) {
	n, err := strconv.ParseInt(request.URL.Query().Get("n"), 10, 64)
	if err != nil || n < 1 {
		http.Error(w, "n is no count", http.StatusBadRequest)
		return
	}
	r.target.Store(n)
	for r.count.Load() < n {
		select {
		case <-r.hit:
		case <-request.Context().Done():
			return
		}
	}
	_, _ = fmt.Fprintln(w, r.count.Load()) // the bench process may be gone
}
