package cli

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/simulate"
)

// traceFile writes two minutes of a wave into a directory of the test's own.
func traceFile(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("timestamp,value\n")
	for second := range 120 {
		fmt.Fprintf(&b, "%d,%.1f\n", second, 100+80*math.Sin(float64(second)/10))
	}
	path := filepath.Join(t.TempDir(), "wave.csv")
	require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o600))

	return path
}

func TestSimulateATrace(t *testing.T) {
	t.Parallel()
	trace := traceFile(t)
	picture := filepath.Join(t.TempDir(), "wave.svg")

	got := runs(schedCommand(nil), nil, "simulate", "--trace", trace, "--interval=2", "--peak=100", "--set", "elastic_preset=fast", "--set", "elastic_min=2", "--svg", picture)
	require.Equal(t, exitOK, got.code, got.stderr)
	lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
	require.Len(t, lines, 2+len(simulate.Policies()))
	require.Equal(t, "wave.csv, peak 100 tasks/s, io app, 50ms a task, 1 x 64 slots, 4m0s", lines[0])
	require.Contains(t, lines[1], "slot-seconds")
	for i, policy := range simulate.Policies() {
		fields := strings.Fields(lines[2+i])
		require.Len(t, fields, 8, lines[2+i])
		require.Equal(t, string(policy), fields[0])
	}

	file, err := os.Open(picture)
	require.NoError(t, err)
	defer file.Close()
	var elements []string
	for decoder := xml.NewDecoder(file); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if start, ok := token.(xml.StartElement); ok {
			elements = append(elements, start.Name.Local)
		}
	}
	require.Equal(t, "svg", elements[0])

	other := runs(schedCommand(nil), nil, "simulate", "--trace", trace, "--interval=2", "--peak=100", "--set", "elastic_min=20")
	require.NotEqual(t, got.stdout, other.stdout, "what is set is obeyed")
}

func TestSimulateFigures(t *testing.T) {
	t.Parallel()
	got := runs(schedCommand(nil), nil, "simulate", "--figures", "--traces", filepath.Dir(traceFile(t)))
	require.Equal(t, exitOK, got.code, got.stderr)
	var names []string
	for decoder := json.NewDecoder(strings.NewReader(got.stdout)); decoder.More(); {
		var figure struct {
			Name string `json:"figure"`
			OK   bool   `json:"ok"`
		}
		require.NoError(t, decoder.Decode(&figure))
		require.True(t, figure.OK)
		names = append(names, figure.Name)
	}
	require.Len(t, names, 3*len(simulate.Models()))
	require.Equal(t, []string{"forecast.wave.ewma.mase", "forecast.wave.ewma.slot_seconds", "forecast.wave.ewma.wait_p99_ms"}, names[:3])

	none := runs(schedCommand(nil), nil, "simulate", "--figures", "--traces", t.TempDir())
	require.Equal(t, result{code: exitOK, stderr: "no traces: --traces or $SCHED_TRACES says where they are\n"}, none)
}

func TestSimulateUsage(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty.csv")
	require.NoError(t, os.WriteFile(empty, []byte("timestamp,value\n"), 0o600))
	known := strings.Join(simulatedSettings(), ", ")
	for name, tt := range map[string]struct {
		args []string
		want string // standard error has it
	}{
		"no such setting":      {[]string{"--set", "elastic_bogus_thing=1"}, "--set elastic_bogus_thing=1: there is no such setting; it has: " + known + "\n"},
		"a near setting":       {[]string{"--set", "elastic_prest=fast"}, "--set elastic_prest=fast: there is no such setting; did you mean elastic_preset?\n"},
		"another's setting":    {[]string{"--set", "max_pending=5"}, "--set max_pending=5: there is no such setting; it has: "},
		"no value":             {[]string{"--set", "elastic_preset"}, "--set elastic_preset: must be a setting=value\n"},
		"a wrong value":        {[]string{"--set", "elastic_alpha=7"}, "--set: "},
		"no such trace":        {[]string{"--trace", empty + "x"}, "no such file"},
		"a trace with nothing": {[]string{"--trace", empty}, "empty.csv: there is nothing in it\n"},
		"no such app":          {[]string{"--app", "gpu", "--length=1m"}, "gpu"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := runs(schedCommand(nil), nil, append([]string{"simulate"}, tt.args...)...)
			require.Equal(t, exitUsage, got.code, got.stderr)
			require.Contains(t, got.stderr, tt.want)
			require.Empty(t, got.stdout)
		})
	}
}
