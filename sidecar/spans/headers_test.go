package spans_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func splitBaggage(text string) []string { return strings.Split(text, ",") }

func TestBaggage(t *testing.T) {
	t.Parallel()
	own := []string{"task_id=42", "worker_id=w-0123456789ab"}
	full := make([]string, 64)
	for i := range full {
		full[i] = "k" + strings.Repeat("x", i+1) + "=v"
	}
	for name, tc := range map[string]struct {
		baggage string
		want    []string
	}{
		"none":       {"", own},
		"theirs":     {"user=ann,tenant=7;private", append([]string{"user=ann", "tenant=7;private"}, own...)},
		"forged":     {"task_id=1,worker_id=x", own},
		"half":       {"task_id=1,user=ann", append([]string{"user=ann"}, own...)},
		"unreadable": {"=;=", own},
		"encoded":    {"name=J%C3%BCrgen", append([]string{"name=J%C3%BCrgen"}, own...)},
		"no room":    {strings.Join(full, ","), full},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tracer, _ := newTracer(t)
			task := newTask(map[string]string{"baggage": tc.baggage})
			tracer.Begin(task, time.Now(), time.Now())
			require.ElementsMatch(t, tc.want, members(t, task))
		})
	}
}
