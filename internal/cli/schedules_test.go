package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSchedules(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	require.Contains(t, f.sched("schedules").stderr, "no schedule yet")

	out := f.ok("schedules", "set", "nightly", "30 4 * * *", "report", `{"a": 1}`, "--timezone", "Asia/Tokyo", "--queue", "reports", "--selector", "gpu=yes",
		"--priority", "3", "--timeout", "90s", "--max-attempts", "7", "--overlap=false", "--description", "Figures")
	require.Contains(t, out, "schedule nightly is set; its next times, by the clock of Asia/Tokyo:\n")
	require.Contains(t, out, " 04:30:00 +0900\n")
	row := f.objects("schedules", "list", "nightly")[0]
	require.Equal(t, map[string]any{"a": 1.0}, row["args"])
	require.Equal(t, []any{"reports", 3.0, 7.0, false, "00:01:30", "Figures"},
		[]any{row["queue"], row["priority"], row["max_attempts"], row["overlap"], row["timeout"], row["description"]})

	// What is left out stays.
	out = f.ok("schedules", "set", "nightly", "@daily", "report", "--pinned")
	require.Contains(t, out, " 00:00:00 +0900\n")
	row = f.objects("schedules", "list")[0]
	require.Equal(t, []any{"@daily", "Asia/Tokyo", "reports", map[string]any{"gpu": "yes"}, false, true},
		[]any{row["cron"], row["timezone"], row["queue"], row["selector"], row["overlap"], row["pinned"]})

	for _, args := range [][]string{
		{"set", "x", "often", "report"},
		{"set", "x", "@daily", "report", "--timezone", "Mars/Olympus"},
		{"set", "x", "@daily", "report", "{"},
		{"set", "x", "@daily"},
	} {
		got := f.sched(append([]string{"schedules"}, args...)...)
		require.Equal(t, exitUsage, got.code, args)
	}
	require.Contains(t, f.sched("schedules", "set", "x", "often", "report").stderr, `cron "often": expected exactly 5 fields`)
	require.Len(t, f.objects("schedules"), 1, "nothing was set")

	require.Equal(t, "schedule nightly is paused\n", f.ok("schedules", "pause", "nightly"))
	require.Contains(t, f.ok("schedules"), "paused")
	id := f.objects("schedules", "run", "nightly")[0]["task_id"]
	require.InDelta(t, 1, id, 0)
	require.Equal(t, "report", f.objects("tasks", "get", "1")[0]["kind"])
	require.Equal(t, "schedule nightly goes on at its next time\n", f.ok("schedules", "resume", "nightly"))

	f.exec("UPDATE sched.schedule SET error = 'it is broken'")
	require.Regexp(t, "failed .* it is broken", f.ok("schedules", "list"))
	require.Equal(t, "schedule nightly is removed\n", f.ok("schedules", "delete", "nightly"))
	for _, verb := range []string{"list", "pause", "resume", "run", "delete"} {
		got := f.sched("schedules", verb, "nightly")
		require.Equal(t, exitNotFound, got.code, "%s: %s", verb, got.stderr)
	}
}
