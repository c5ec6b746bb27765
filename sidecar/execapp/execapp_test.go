package execapp_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/sidecar/dispatch"
	"github.com/sched-sidecar/sched/sidecar/execapp"
)

const patience = time.Minute

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shell returns a dispatcher that runs a script.
func shell(t *testing.T, script string, change ...func(*execapp.Config)) *execapp.Dispatcher {
	t.Helper()
	config := execapp.Config{Command: []string{"/bin/sh", "-c", script}, Logger: slog.New(slog.DiscardHandler), KillAfter: 100 * time.Millisecond}
	for _, c := range change {
		c(&config)
	}
	d, err := execapp.New(config)
	require.NoError(t, err)
	return d
}

func task() *dispatch.Task {
	return &dispatch.Task{
		ID: 7, Kind: "mail", Queue: "default", Attempt: 2, MaxAttempts: 5, Priority: 1, Batch: "b",
		Args: json.RawMessage(`{"to":"ann"}`), Headers: map[string]string{"x-tenant": "acme"},
		Lease: jobs.Lease{WorkerID: "w1", AttemptedAt: time.UnixMicro(1_700_000_000_000_001)},
	}
}

func TestExitStatusDecides(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]jobs.Outcome{
		`exit 0`:                 {Kind: jobs.OutcomeComplete},
		`cat`:                    {Kind: jobs.OutcomeComplete, Output: json.RawMessage(`{"to":"ann"}`)},
		`echo done`:              {Kind: jobs.OutcomeComplete}, // not JSON: no output
		`printf '"\\u0000"'`:     {Kind: jobs.OutcomeComplete}, // not storable either
		`echo busy >&2; exit 75`: {Kind: jobs.OutcomeRetry, Error: "the command ended with exit status 75: busy"},
		`exit 1`:                 {Kind: jobs.OutcomeRetry, Error: "the command ended with exit status 1"},
		`echo gone >&2; exit 65`: {Kind: jobs.OutcomeCancel, Error: "the command ended with exit status 65: gone"},
		`kill -9 $$`:             {Kind: jobs.OutcomeRetry, Error: "the command ended with signal: killed"},
		`printf '%s' "\"$SCHED_TASK_ID $SCHED_KIND $SCHED_ATTEMPT/$SCHED_MAX_ATTEMPTS $SCHED_BATCH $SCHED_LEASE $SCHED_HEADER_X_TENANT\""`: {
			Kind: jobs.OutcomeComplete, Output: json.RawMessage(`"7 mail 2/5 b w1.1700000000000001 acme"`),
		},
		`exec 0<&-; exit 0`: {Kind: jobs.OutcomeComplete}, // args need not be read
	} {
		require.Equal(t, want, shell(t, script).Dispatch(t.Context(), task()), script)
	}
}

func TestOutputIsBounded(t *testing.T) {
	t.Parallel()
	d := shell(t, `yes '"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"' | head -c 3000000`, func(c *execapp.Config) { c.MaxOutputBytes = 100 })
	require.Equal(t, jobs.Outcome{Kind: jobs.OutcomeComplete}, d.Dispatch(t.Context(), task()))
	got := shell(t, `yes error | head -c 3000000 >&2; echo the end >&2; exit 1`).Dispatch(t.Context(), task())
	require.LessOrEqual(t, len(got.Error), 2<<10)
	require.Contains(t, got.Error, "exit status 1: ")
}

func TestSidecarVariablesAreNotPassedOn(t *testing.T) {
	t.Setenv("SCHED_DATABASE_URL", "postgres://secret")
	t.Setenv("INHERITED", "yes")
	got := shell(t, `printf '"%s-%s"' "$SCHED_DATABASE_URL" "$INHERITED"`).Dispatch(t.Context(), task())
	require.JSONEq(t, `"-yes"`, string(got.Output))
}

func TestMissingCommandIsDown(t *testing.T) {
	t.Parallel()
	d := shell(t, "", func(c *execapp.Config) { c.Command = []string{"/no/such/command"} })
	require.Error(t, d.Probe(t.Context()))
	got := d.Dispatch(t.Context(), task())
	require.Equal(t, jobs.OutcomeHandBack, got.Kind)
	require.True(t, got.AppDown)
	require.NoError(t, shell(t, "exit 0").Probe(t.Context()))
	_, err := execapp.New(execapp.Config{})
	require.ErrorContains(t, err, "app.command is empty")
}

// The whole group ends, also what ignores SIGTERM or was left behind.
func TestGroupEndsWithTheAttempt(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"deadline":    `trap '' TERM; sleep 1000 & echo $! > "$PIDFILE"; wait; sleep 1000`,
		"left behind": `sleep 1000 >/dev/null 2>&1 & echo $! > "$PIDFILE"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "pid")
			d := shell(t, strings.ReplaceAll(script, "$PIDFILE", file))
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			outcome := make(chan jobs.Outcome, 1)
			go func() { outcome <- d.Dispatch(ctx, task()) }()
			var pid int
			require.Eventually(t, func() bool {
				raw, _ := os.ReadFile(file)
				pid, _ = strconv.Atoi(strings.TrimSpace(string(raw)))
				return pid > 0
			}, patience, time.Millisecond)
			if name == "deadline" {
				cancel(dispatch.ErrDeadline)
				got := <-outcome
				require.Equal(t, jobs.OutcomeRetry, got.Kind)
				require.Contains(t, got.Error, "deadline exceeded")
			} else {
				require.Equal(t, jobs.OutcomeComplete, (<-outcome).Kind)
			}
			require.Eventually(t, func() bool { return syscall.Kill(pid, 0) != nil || zombie(pid) }, patience, time.Millisecond)
		})
	}
}

// zombie reports whether the process has ended and waits to be reaped by init.
func zombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(stat), ") Z ")
}

func TestTraceIsAVariableOfItsOwn(t *testing.T) {
	t.Setenv("TRACEPARENT", "of the sidecar's own parent")
	script := `printf '"%s %s %s"' "$TRACEPARENT" "$BAGGAGE" "$SCHED_HEADER_TRACEPARENT"`
	require.JSONEq(t, `"  "`, string(shell(t, script).Dispatch(t.Context(), task()).Output))
	traced := task()
	traced.Headers = map[string]string{"traceparent": "00-1-2-01", "baggage": "task_id=7"}
	require.JSONEq(t, `"00-1-2-01 task_id=7 00-1-2-01"`, string(shell(t, script).Dispatch(t.Context(), traced).Output))
}
