package dispatch_test

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/sidecar/dispatch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLinesOfTheLogNameTheTask(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		headers map[string]string
		more    string
	}{
		"no trace":  {nil, ""},
		"a trace":   {map[string]string{"Traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"}, " trace_id=4bf92f3577b34da6a3ce929d0e0e4736"},
		"malformed": {map[string]string{"traceparent": "00-4bf9"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := &dispatch.Task{
				ID: 7, Kind: "mail", Attempt: 2, Headers: tc.headers,
				Lease: jobs.Lease{WorkerID: "w-0123456789ab", AttemptedAt: time.Unix(1, 0)},
			}
			var text bytes.Buffer
			slog.New(slog.NewTextHandler(&text, nil)).With(task.LogAttrs()).Info("said")
			require.Contains(t, text.String(), "msg=said task_id=7 kind=mail attempt=2 worker_id=w-0123456789ab"+tc.more+"\n")
		})
	}
}
