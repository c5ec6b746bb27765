package mainjob_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOutputIsKept(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	bodies := map[string]string{
		"object":  `{"total": 12.50, "lines": [1, 2, 3], "name": "Grüße ✓", "nothing": null}`,
		"array":   `[1, "two", {"three": 3}]`,
		"string":  `"just text"`,
		"number":  `12345678901234567890`,
		"large":   `{"blob": "` + strings.Repeat("x", 200<<10) + `"}`,
		"empty":   ``,
		"nothing": `null`,
	}
	a := newApp(t, func(c *call) answer {
		return answer{status: http.StatusOK, header: map[string]string{"Content-Type": "application/json"}, body: bodies[c.kind]}
	})
	f.start(a, nil)
	for kind, body := range bodies {
		id := enqueue(t, f.db, kind)
		k := awaitStatus(t, f.db, id, "completed", soon)
		if body == "" || body == "null" {
			require.Contains(t, []string{"", "null"}, string(k.Output), kind)
		} else {
			require.JSONEq(t, body, string(k.Output), kind)
		}
		require.Len(t, a.callsOf(id), 1)
	}
}

// An answer without end is read to a bound, and the sidecar stays well.
func TestResponseIsBounded(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := newApp(t, func(c *call) answer {
		if c.kind == "flood" {
			return answer{status: http.StatusOK, body: `{"blob": ` + strings.Repeat(" ", 64<<10), repeat: 1 << 10}
		}
		return answer{status: http.StatusOK}
	})
	s := f.start(a, nil)
	id := enqueue(t, f.db, "flood", with("max_attempts", 1))
	k := awaitTask(t, f.db, id, soon, "finished", func(k task) bool { return k.EndTime != nil })
	require.LessOrEqual(t, len(k.Output), 2<<20, "status %s", k.Status)
	awaitStatus(t, f.db, enqueue(t, f.db, "modest"), "completed", soon)
	require.Less(t, s.metric(t, "go_memstats_heap_alloc_bytes"), float64(64<<20), "the whole answer is in memory")
}

// Every answer that isn't a success says what becomes of the task.
func TestAnswersDecide(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := newApp(t, func(c *call) answer {
		var reply struct {
			Status  int
			NoRetry bool
		}
		if err := json.Unmarshal(c.args, &reply); err != nil {
			return answer{status: http.StatusTeapot}
		}
		header := map[string]string{"Location": "/elsewhere"}
		if reply.NoRetry {
			header["Sched-No-Retry"] = "true"
		}
		return answer{status: reply.Status, header: header, body: fmt.Sprintf("because %d", reply.Status)}
	})
	f.start(a, nil)
	type want struct {
		status  int
		noRetry bool
		becomes string
	}
	wants := []want{{500, true, "cancelled"}, {http.StatusFound, false, "discarded"}}
	for _, status := range []int{400, 410, 413, 415, 422} {
		wants = append(wants, want{status, false, "cancelled"})
	}
	for _, status := range []int{408, 409, 425, 500, 502, 504} {
		wants = append(wants, want{status, false, "discarded"}) // after its one attempt
	}
	ids := make([]int64, len(wants))
	for i, w := range wants {
		ids[i] = enqueue(t, f.db, "answer", with("max_attempts", 1), with("args", fmt.Sprintf(`{"status": %d, "noRetry": %t}`, w.status, w.noRetry)))
	}
	for i, w := range wants {
		k := awaitTask(t, f.db, ids[i], soon, w.becomes, func(k task) bool { return k.EndTime != nil })
		require.Equal(t, w.becomes, k.Status, "after %d, no retry %t", w.status, w.noRetry)
		require.Contains(t, text(k.Error), fmt.Sprint(w.status))
		require.Len(t, a.callsOf(ids[i]), 1)
	}
}
