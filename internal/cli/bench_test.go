package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/bench"
)

func TestBenchUsage(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		args []string
		want string // the whole of standard error
	}{
		{"nothing", []string{"bench"}, "sched: bench: needs a command: drain, latency, governor, idle, enqueue, routing, timers, backlog, elastic, see, audit, peers, all\n"},
		{"a near command", []string{"bench", "drains"}, "sched: bench: there is no command \"drains\"; did you mean drain?\n"},
		{"a protocol that isn't spoken", []string{"bench", "drain", "--protocol=smtp"}, "sched: --protocol \"smtp\": use http, http-tcp, grpc, exec\n"},
		{"too many rounds", []string{"bench", "all", "--rounds=1000"}, "sched: 1000 rounds are out of range 1..100\n"},
		{"a chart in no directory", []string{"bench", "idle", "--svg=/no/such/idle.svg"}, "sched: --svg: there is no directory /no/such\n"},
		{"another scenario's flag", []string{"bench", "idle", "--tasks=5"}, "sched: unknown flag: --tasks; see sched bench idle --help\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, result{code: exitUsage, stderr: tt.want}, runs(schedCommand(nil), nil, tt.args...))
		})
	}
}

func TestBenchHelpHidesItsOwnProcesses(t *testing.T) {
	t.Parallel()
	got := runs(schedCommand(nil), nil, "bench", "--help")
	require.Equal(t, exitOK, got.code)
	require.Contains(t, got.stdout, "governor")
	require.NotContains(t, got.stdout, bench.WorkerRiver+" ")
	require.NotContains(t, got.stdout, "sidecar  ")
}

func TestBenchFindsPrograms(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)

	byDefault := benchOptions{}
	require.NoError(t, byDefault.findPrograms())
	require.Equal(t, []string{self, "bench"}, byDefault.Worker)
	require.Equal(t, []string{self, "bench", "sidecar"}, byDefault.Sidecar, "no sched-sidecar lies beside the test")

	given := benchOptions{sidecar: filepath.Join(t.TempDir(), "sched-sidecar")}
	require.ErrorContains(t, given.findPrograms(), "--sidecar: ")
	require.NoError(t, os.WriteFile(given.sidecar, nil, 0o600))
	require.NoError(t, given.findPrograms())
	require.Equal(t, []string{given.sidecar, "run"}, given.Sidecar)
}

func TestBenchWorkerIsACommand(t *testing.T) {
	t.Parallel()
	got := runs(schedCommand(nil), nil, "bench", "app", "-starts") // standard input ends at once
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Contains(t, got.stdout, `{"addr":"127.0.0.1:`)
}

func TestBenchSidecarReadsTheSidecarsSettings(t *testing.T) {
	t.Parallel()
	got := runs(schedCommand([]string{"SCHED_SLOTS_CEILING=0"}), nil, "bench", "sidecar")
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.stderr, "slots.ceiling = 0 (SCHED_SLOTS_CEILING)")
}
