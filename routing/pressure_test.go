package routing_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sched-sidecar/sched/routing"
)

// The whole table: either dimension in each of its three levels, from each level
// before, thresholds and the edges beside them included.
func TestPressureTable(t *testing.T) {
	t.Parallel()
	th := routing.DefaultThresholds()
	const g, y, r = routing.Green, routing.Yellow, routing.Red
	for _, test := range []struct {
		pending int // of 1000
		load    float64
		want    routing.Level // from green: no hysteresis
	}{
		// pending green
		{0, 0, g},
		{699, 0.679, g},
		{0, 0.68, y},
		{699, 0.849, y},
		{0, 0.85, r},
		{699, 1, r},
		// pending yellow
		{700, 0, y},
		{899, 0.679, y},
		{700, 0.68, y},
		{899, 0.849, y},
		{700, 0.85, r},
		{899, 1, r},
		// pending red
		{900, 0, r},
		{1000, 0.679, r},
		{900, 0.68, r},
		{1000, 0.849, r},
		{900, 0.85, r},
		{1000, 1, r},
	} {
		got := routing.Pressure{}.Next(routing.PressureSignals{Pending: test.pending, MaxPending: 1000, Load: test.load}, th)
		require.Equal(t, test.want, got.Level(), "%d waiting, load %g", test.pending, test.load)
	}
}

func TestPressureOnTheWayDown(t *testing.T) {
	t.Parallel()
	th := routing.DefaultThresholds()
	const g, y, r = routing.Green, routing.Yellow, routing.Red
	for _, test := range []struct {
		before  routing.Level // of the dimension that moves
		pending int
		load    float64
		wantP   routing.Level
		wantL   routing.Level
	}{
		{r, 899, 0.849, r, r}, // below the threshold, within the hysteresis
		{r, 850, 0.80, r, r},
		{r, 849, 0.799, y, y},
		{r, 700, 0.68, y, y},
		{r, 650, 0.63, y, y}, // below yellow's threshold, within its hysteresis
		{r, 649, 0.629, g, g},
		{r, 0, 0, g, g},
		{y, 699, 0.679, y, y},
		{y, 650, 0.63, y, y},
		{y, 649, 0.629, g, g},
		{y, 850, 0.80, y, y}, // not up again before red's threshold
		{y, 900, 0.85, r, r},
		{g, 650, 0.63, g, g}, // the hysteresis holds nothing up that wasn't
		{g, 850, 0.80, y, y},
	} {
		got := routing.Pressure{Pending: test.before}.Next(routing.PressureSignals{Pending: test.pending, MaxPending: 1000}, th)
		require.Equal(t, routing.Pressure{Pending: test.wantP}, got, "pending %d from %s", test.pending, test.before)
		got = routing.Pressure{Load: test.before}.Next(routing.PressureSignals{Load: test.load, MaxPending: 1000}, th)
		require.Equal(t, routing.Pressure{Load: test.wantL}, got, "load %g from %s", test.load, test.before)
	}
	// Each dimension goes down by itself: a queue that drained is not held red by its load.
	got := routing.Pressure{Pending: r, Load: y}.Next(routing.PressureSignals{Pending: 10, MaxPending: 1000, Load: 0.65}, th)
	require.Equal(t, routing.Pressure{Load: y}, got)
}

func TestPressureReason(t *testing.T) {
	t.Parallel()
	th := routing.DefaultThresholds()
	for _, test := range []struct {
		before routing.Pressure
		s      routing.PressureSignals
		want   string
	}{
		{routing.Pressure{}, routing.PressureSignals{Pending: 5, MaxPending: 100}, ""},
		{routing.Pressure{}, routing.PressureSignals{Pending: 70, MaxPending: 100}, "70 of 100 tasks wait: yellow from 70 % on"},
		{routing.Pressure{}, routing.PressureSignals{MaxPending: 100, Load: 0.9}, "its workers are 90 % full: red from 85 % on"},
		{
			routing.Pressure{},
			routing.PressureSignals{Pending: 100, MaxPending: 100, Load: 1},
			"100 of 100 tasks wait: red from 90 % on; its workers are 100 % full: red from 85 % on",
		},
		{
			routing.Pressure{Pending: routing.Red},
			routing.PressureSignals{Pending: 86, MaxPending: 100},
			"86 of 100 tasks wait: red from 90 % on, and not yet far enough below that",
		},
	} {
		require.Equal(t, test.want, test.before.Next(test.s, th).Reason(test.s, th))
	}
}

// Whatever came before: never below what the measures alone say, never above both
// that and the level before, and green with nothing waiting and nobody busy.
func TestPressureBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.Float64Range(0.01, 1)
		th := routing.Thresholds{
			PendingYellow: part.Draw(t, "py"), PendingRed: part.Draw(t, "pr"), LoadYellow: part.Draw(t, "ly"), LoadRed: part.Draw(t, "lr"),
			Hysteresis: rapid.Float64Range(0, 0.5).Draw(t, "h"),
		}
		level := rapid.SampledFrom([]routing.Level{routing.Green, routing.Yellow, routing.Red})
		before := routing.Pressure{Pending: level.Draw(t, "pending before"), Load: level.Draw(t, "load before")}
		s := routing.PressureSignals{Pending: rapid.IntRange(0, 120).Draw(t, "pending"), MaxPending: 100, Load: rapid.Float64Range(0, 1).Draw(t, "load")}
		fresh, next := routing.Pressure{}.Next(s, th), before.Next(s, th)
		require.GreaterOrEqual(t, next.Pending, fresh.Pending)
		require.GreaterOrEqual(t, next.Load, fresh.Load)
		require.LessOrEqual(t, next.Pending, max(fresh.Pending, before.Pending))
		require.LessOrEqual(t, next.Load, max(fresh.Load, before.Load))
		require.Equal(t, next, next.Next(s, th), "the same measures again change nothing")
		require.Equal(t, routing.Pressure{}, before.Next(routing.PressureSignals{MaxPending: 100}, th))
	})
}
