package simulate

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sched-sidecar/sched/elastic"
)

func step() Load {
	load := make(Load, 180)
	for i := range load {
		load[i] = 50
		if i >= 60 && i < 120 {
			load[i] = 400
		}
	}
	return load
}

func config(app App, load Load) Config {
	return Config{App: app, Load: load, Workers: 1, Ceiling: 64, Settings: elastic.DefaultSettings(), Model: EWMA, Seed: 1}
}

func run(t *testing.T, c Config, policy Policy) Result {
	t.Helper()
	r, err := Run(t.Context(), c, policy)
	require.NoError(t, err)
	return r
}

func TestStep(t *testing.T) {
	t.Parallel()
	c := config(App{Kind: IO, Service: 50 * time.Millisecond}, step())
	most, least := run(t, c, FixedMax), run(t, c, FixedMin)
	ours, reactive := run(t, c, Elastic), run(t, c, Reactive)
	require.InDelta(t, 180*64, most.SlotSeconds, 1)
	require.InDelta(t, 180*2, least.SlotSeconds, 1)
	require.Less(t, ours.SlotSeconds, 0.5*most.SlotSeconds)
	require.Less(t, ours.WaitP99, least.WaitP99/5)
	require.InEpsilon(t, ours.Arrived, ours.Ended, 0.01)
	require.Less(t, least.Ended, 0.9*least.Arrived)
	require.Greater(t, reactive.SlotSeconds, 0.0)
	require.Positive(t, ours.Reasons[elastic.ReasonDemand])
	require.InDelta(t, ours.Arrived, most.Arrived, 0, "all policies get the same load")
}

// Five seconds after a step nine in ten of what came since are served, also where a
// task is slow and growth waits for its judgement.
func TestAStepIsServedSoon(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		app       App
		low, high float64
	}{
		"io":         {App{Kind: IO, Service: 50 * time.Millisecond}, 50, 400},
		"slow":       {App{Kind: IO, Service: 500 * time.Millisecond}, 5, 60},
		"slower":     {App{Kind: IO, Service: 2 * time.Second}, 2, 20},
		"downstream": {App{Kind: Downstream, Service: 50 * time.Millisecond, Width: 20}, 50, 300},
	} {
		load := step()
		for i := range load {
			load[i] = test.low
			if i >= 60 && i < 120 {
				load[i] = test.high
			}
		}
		r := run(t, config(test.app, load), Elastic)
		require.LessOrEqual(t, r.Points[65].Backlog, 0.1*6*test.high, name)
		require.LessOrEqual(t, r.Points[119].Backlog, 0.01*60*test.high, name)
	}
}

func TestAppsThatOnlyQueueBeyondTheirWidth(t *testing.T) {
	t.Parallel()
	for _, app := range []App{{Kind: Downstream, Service: 50 * time.Millisecond, Width: 20}, {Kind: CPU, Service: 10 * time.Millisecond, Width: 2}} {
		load := make(Load, 300)
		for i := range load {
			load[i] = 2 * app.rate(app.Width, 1)
		}
		r := run(t, config(app, load), Elastic)
		require.Greater(t, r.Ended, 0.93*300*app.rate(app.Width, 1), app.Kind)
		last := r.Points[len(r.Points)-100:]
		for _, p := range last {
			require.LessOrEqual(t, p.Slots, 3*app.Width, app.Kind)
			require.GreaterOrEqual(t, p.Slots, 0.7*app.Width, app.Kind)
		}
	}
}

func TestTheSameSeedTheSameResult(t *testing.T) {
	t.Parallel()
	load, err := Generate(Bursts, 5*time.Minute, 300, 7)
	require.NoError(t, err)
	c := config(App{Kind: IO, Service: 20 * time.Millisecond}, load)
	c.Workers = 3
	first, second := run(t, c, Elastic), run(t, c, Elastic)
	require.Equal(t, first, second)
	other, err := Generate(Bursts, 5*time.Minute, 300, 8)
	require.NoError(t, err)
	require.NotEqual(t, load, other)
}

// Nothing is lost and nothing is made, whatever the load.
func TestTasksAreConserved(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		app := App{
			Kind:    rapid.SampledFrom(Kinds()).Draw(t, "kind"),
			Service: time.Duration(rapid.IntRange(2, 2000).Draw(t, "ms")) * time.Millisecond,
			Width:   rapid.Float64Range(1, 50).Draw(t, "width"), MemPerTask: rapid.Float64Range(0, 0.1).Draw(t, "mem"),
		}
		load := Load(rapid.SliceOfN(rapid.Float64Range(0, 500), 1, 40).Draw(t, "load"))
		c := config(app, load)
		c.Workers = rapid.IntRange(1, 6).Draw(t, "workers")
		policy := rapid.SampledFrom(Policies()).Draw(t, "policy")
		r, err := Run(context.Background(), c, policy)
		require.NoError(t, err)
		require.LessOrEqual(t, r.Ended, r.Arrived+1e-6)
		require.GreaterOrEqual(t, r.Arrived-r.Ended+1e-6, 0.0)
		require.LessOrEqual(t, r.SlotSeconds, float64(len(load)*c.Workers*c.Ceiling)+1e-6)
		require.LessOrEqual(t, r.WaitP50, r.WaitP99)
	})
}

func TestAnHourOfTenThousandWorkersIsQuick(t *testing.T) {
	t.Parallel()
	load, err := Generate(Daily, time.Hour, 1e6, 1)
	require.NoError(t, err)
	c := config(App{Kind: IO, Service: 50 * time.Millisecond}, load)
	c.Workers = 10000
	begun := time.Now()
	r := run(t, c, Elastic)
	require.Less(t, time.Since(begun), time.Minute)
	require.InEpsilon(t, load.Mean()*3600, r.Ended, 0.01)
	require.Less(t, r.SlotSeconds, 0.5*3600*64*10000)
}

func TestPatterns(t *testing.T) {
	t.Parallel()
	for _, pattern := range Patterns() {
		load, err := Generate(pattern, 10*time.Minute, 200, 3)
		require.NoError(t, err)
		require.Len(t, load, 600)
		most := 0.0
		for _, v := range load {
			require.GreaterOrEqual(t, v, 0.0)
			most = max(most, v)
		}
		require.InDelta(t, 200, most, 1e-9)
		require.Less(t, load.Mean(), 180.0)
	}
	_, err := Generate("waves", time.Minute, 1, 1)
	require.ErrorContains(t, err, "waves")
}

func TestReadTrace(t *testing.T) {
	t.Parallel()
	load, err := ReadTrace(strings.NewReader("timestamp,value\n2014-04-10 00:04:00,94.0\n2014-04-10 00:09:00,56\n"))
	require.NoError(t, err)
	require.Equal(t, Load{94, 56}, load)
	require.Equal(t, Load{94, 75, 56, 56}, load.Stretched(2))
	require.Equal(t, Load{10, 5}, Load{4, 2}.Scaled(10))
	for _, bad := range []string{"", "timestamp,value\n", "timestamp,value\na,b\n", "timestamp,value\na,-1\n", "a,1,2\n", "timestamp,value\na,NaN\n"} {
		_, err := ReadTrace(strings.NewReader(bad))
		require.Error(t, err, bad)
	}
}

func TestMASE(t *testing.T) {
	t.Parallel()
	ramp, jumps := make(Load, 100), make(Load, 100)
	for i := range ramp {
		ramp[i], jumps[i] = float64(10*i), []float64{20, 180}[i%2]
	}
	for name, test := range map[string]struct {
		model Model
		alpha float64
		load  Load
		low   float64
		high  float64
	}{
		"naive is what it is measured by": {Naive, 1, jumps, 1, 1},
		"an average is better with jumps": {EWMA, 0.2, jumps, 0.4, 0.6},
		"and worse on a ramp":             {EWMA, 0.7, ramp, 1.3, 1.5},
		"where the trend is better":       {Holt, 0.7, ramp, 0.5, 1.3},
		"no change, no error":             {EWMA, 0.7, Load{5, 5, 5}, 0, 0},
	} {
		got, err := MASE(test.model, test.alpha, test.load)
		require.NoError(t, err, name)
		require.GreaterOrEqual(t, got, test.low, name)
		require.LessOrEqual(t, got, test.high, name)
	}
}

func TestSVG(t *testing.T) {
	t.Parallel()
	c := config(App{Kind: IO, Service: 50 * time.Millisecond}, step())
	var results []Result
	for _, policy := range Policies() {
		results = append(results, run(t, c, policy))
	}
	var b strings.Builder
	require.NoError(t, WriteSVG(&b, "a < b", results))
	curves := 0
	decoder := xml.NewDecoder(strings.NewReader(b.String()))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "polyline" {
			curves++
		}
	}
	require.Equal(t, len(results)+1+3*len(results), curves, "the legend's, demand once, slots, backlog and wait of each")
	require.NotContains(t, b.String(), "NaN")
}

// The public traces, where they are.
func TestTraces(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("SCHED_TRACES")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "traces")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.csv"))
	require.NoError(t, err)
	if len(files) == 0 {
		t.Skipf("no traces in %s: set SCHED_TRACES", dir)
	}
	for _, file := range files {
		in, err := os.Open(file)
		require.NoError(t, err)
		load, err := ReadTrace(in)
		require.NoError(t, in.Close())
		require.NoError(t, err, file)
		c := config(App{Kind: IO, Service: 50 * time.Millisecond}, load[:min(len(load), 2000)].Scaled(400))
		ours, most := run(t, c, Elastic), run(t, c, FixedMax)
		require.Less(t, ours.SlotSeconds, 0.5*most.SlotSeconds, file)
		require.Greater(t, ours.Ended, 0.99*ours.Arrived, file)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config){
		"no workers":   func(c *Config) { c.Workers = 0 },
		"no ceiling":   func(c *Config) { c.Ceiling = 0 },
		"no load":      func(c *Config) { c.Load = nil },
		"no such app":  func(c *Config) { c.App.Kind = "x" },
		"no time":      func(c *Config) { c.App.Service = 0 },
		"no width":     func(c *Config) { c.App.Kind, c.App.Width = CPU, 0 },
		"no threshold": func(c *Config) { c.Settings.Threshold = 0 },
		"no model":     func(c *Config) { c.Model = "x" },
	} {
		c := config(App{Kind: IO, Service: time.Second}, Load{1})
		change(&c)
		_, err := Run(t.Context(), c, Elastic)
		require.Error(t, err, name)
	}
}
