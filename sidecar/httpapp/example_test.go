package httpapp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/sidecar/dispatch"
	"github.com/sched-sidecar/sched/sidecar/httpapp"
)

func Example() {
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Sched-Attempt") == "1" {
			w.Header().Set("Retry-After", "5")
			http.Error(w, "warming up", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"path": %q}`, r.URL.Path)
	}))
	defer app.Close()

	dispatcher, err := httpapp.New(httpapp.Config{URL: app.URL + "/tasks"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dispatcher.Close()

	for attempt := 1; attempt <= 2; attempt++ {
		outcome := dispatcher.Dispatch(context.Background(), &dispatch.Task{
			ID: 42, Kind: "mail.send", Queue: "default", Attempt: attempt, MaxAttempts: 25,
			Args:  json.RawMessage(`{"to": "a@example.com"}`),
			Lease: jobs.Lease{WorkerID: "w-3f9k2m7q4t1x", AttemptedAt: time.Now()},
		})
		fmt.Printf("%s %s %s%s\n", outcome.Kind, outcome.Delay, outcome.Error, outcome.Output)
	}
	// Output:
	// snooze 5s app answered 503 Service Unavailable: warming up
	// complete 0s {"path": "/tasks/mail.send"}
}
