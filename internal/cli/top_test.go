package cli

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/operator"
)

func topExample() operator.Top {
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.Local)
	value := func(v float64) *float64 { return &v }
	moved := at.Add(-3 * time.Second)

	return operator.Top{
		Fleet: operator.TopFleet{
			At: at, Desired: 3, Reason: "what arrives and waits needs them", Workers: 2, Arrivals: 120, Forecast: 118.25, Demand: 6.04, Running: 14, Slots: 29,
			Ceiling: 128, Led: true, Pressure: "yellow",
		},
		Workers: []operator.TopWorker{
			{
				ID: "w-3f9k2m7q4t1x", Hostname: "one.example", State: "active", Health: "good", Running: 14, Slots: 29, Ceiling: 64, Arrivals: value(120), Forecast: value(118.25),
				Score: value(0.37), ScoreCPU: value(0.12), ScoreMem: value(0.05), ScorePending: value(0.2), Reason: "hold", HeartbeatAt: at, Alive: true,
				SlotsReason: "demand: 118/s x 50ms, 40 waiting: 29 needed", SlotsAt: &moved, SlotsFrom: "16", SlotsTo: "29",
			},
			{ID: "w-7c1d8s0a2b3c", State: "active", Slots: 64, Ceiling: 64, HeartbeatAt: at, Alive: true, Holds: []string{"app down"}},
		},
		Queues: []operator.TopQueue{
			{Name: "default", Pressure: "yellow", PressureReason: "pending 72 %", Pending: 720, FullAt: 1000, Load: 0.21, Workers: 2, FreeSlots: 15},
			{Name: "mail", Pressure: "green", Pending: 1000, FullAt: 1000, Workers: 2, FreeSlots: 15},
		},
	}
}

func TestTopLines(t *testing.T) {
	t.Parallel()
	require.Equal(t, `sched top  03:04:05  yellow
2 workers, 3 wanted: what arrives and waits needs them
14 running, 29 of 128 slots; 120.0/s arrive, 118.2/s expected, 6.0 slots needed

WORKER          RUNS  SLOTS  ARRIVE  EXPECT  SCORE   CPU   MEM  WAIT  WHY
w-3f9k2m7q4t1x    14  29/64   120.0   118.2   0.37  0.12  0.05  0.20  16>29 dem…
w-7c1d8s0a2b3c     0  64/64       -       -      -     -     -     -  takes not…

QUEUE    PRESSURE  PENDING  LOAD  WORKERS  FREE  NOTE
default  yellow        720  21 %        2    15  pending 72 %
mail     green      1,000+   0 %        2    15`, strings.Join(topLines(topExample(), 80, 0, false), "\n"))
}

func TestTopFitsItsTerminal(t *testing.T) {
	t.Parallel()
	top := topExample()
	for len(top.Workers) < 300 {
		top.Workers = append(top.Workers, top.Workers...)
	}
	for len(top.Queues) < 100 {
		top.Queues = append(top.Queues, top.Queues...)
	}
	for _, width := range []int{80, 100, 132} {
		for _, height := range []int{10, 24, 50} {
			lines := topLines(top, width, height, false)
			require.LessOrEqual(t, len(lines), height)
			for _, line := range lines {
				require.LessOrEqual(t, utf8.RuneCountInString(line), width, line)
			}
			if height > 20 {
				require.Contains(t, strings.Join(lines, "\n"), "more workers")
				require.Contains(t, strings.Join(lines, "\n"), "more queues")
			}
		}
	}
	require.Greater(t, len(topLines(top, 0, 0, false)), 400, "nothing is left out where there is no terminal")
	require.Contains(t, strings.Join(topLines(top, 0, 0, false), "\n"), "120.0   118.2   0.37  0.12  0.05  0.20  16>29 demand: 118/s x 50ms, 40 waiting: 29 needed  one.example")
	require.Contains(t, topLines(top, 200, 0, true)[0], "\x1b[33myellow")
}

func TestTopSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	top := topExample()
	top.Fleet.Led, top.Fleet.Draining = false, 1
	top.Workers[0].Alive, top.Workers[0].HeartbeatAt = false, top.Fleet.At.Add(-30*time.Second)
	top.Workers[1].Holds, top.Workers[1].State = nil, "draining"
	text := strings.Join(topLines(top, 0, 0, false), "\n")
	for _, want := range []string{"nobody leads", "2 workers and 1 draining", "silent for 30s", "draining"} {
		require.Contains(t, text, want)
	}
	old := top.Fleet.At.Add(-time.Minute)
	why, _ := topWhy(operator.TopWorker{Alive: true, Reason: "hold", ScaleOut: true, SlotsAt: &old, SlotsFrom: "2", SlotsTo: "4", Health: "strained"}, top.Fleet)
	require.Equal(t, "strained, hold, scale out", why, "an old change explains nothing")
	require.Equal(t, "no worker is registered: start sched-sidecar beside an app", topLines(operator.Top{}, 80, 24, false)[4])
}

// looks gives the same fleet again and again, and fails from the look on that it is told.
type looks struct {
	n        int
	fail     error
	from, to int
}

func (l *looks) Top(ctx context.Context, _ int) (operator.Top, error) {
	if l.n++; ctx.Err() != nil {
		return operator.Top{}, ctx.Err()
	}
	if l.fail != nil && l.n >= l.from && l.n <= l.to {
		return operator.Top{}, l.fail
	}

	return topExample(), nil
}

func TestTopGoesOnUntilItIsEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		var out strings.Builder
		l := &looks{}
		require.NoError(t, watchTop(ctx, l, &screen{out: &out, width: 80}, false, time.Second))
		require.Equal(t, 4, l.n)
		require.True(t, strings.HasPrefix(out.String(), topEnter), "a screen of its own")
		require.True(t, strings.HasSuffix(out.String(), topLeave), "and the user's is back")
		require.Equal(t, 4, strings.Count(out.String(), topHome))

		// For programs: an object each time.
		ctx, cancel = context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		out.Reset()
		require.NoError(t, watchTop(ctx, &looks{}, &screen{out: &out, json: true}, false, time.Second))
		require.Len(t, strings.Split(strings.TrimSpace(out.String()), "\n"), 4)

		// Not at a terminal: once.
		out.Reset()
		require.NoError(t, watchTop(t.Context(), &looks{}, &screen{out: &out}, false, time.Second))
		require.NotContains(t, out.String(), "\x1b")
		require.Equal(t, 1, strings.Count(out.String(), "sched top"))

		// A first look that fails ends it: nothing was ever shown.
		out.Reset()
		gone := errors.New("gone")
		require.ErrorIs(t, watchTop(t.Context(), &looks{fail: gone, to: 1}, &screen{out: &out, width: 80}, false, time.Second), gone)
		require.Empty(t, out.String())

		// A later one leaves the picture, says so, and is tried again.
		ctx, cancel = context.WithTimeout(t.Context(), 4500*time.Millisecond)
		defer cancel()
		require.NoError(t, watchTop(ctx, &looks{fail: gone, from: 2, to: 3}, &screen{out: &out, width: 80}, false, time.Second))
		pictures := strings.Split(out.String(), topHome)[1:]
		require.Len(t, pictures, 5)
		for i, picture := range pictures {
			require.Contains(t, picture, "w-3f9k2m7q4t1x")
			require.Equal(t, i == 1 || i == 2, strings.Contains(picture, "not read since, trying again: gone"), i)
			require.LessOrEqual(t, strings.Count(picture, "\n"), 23)
		}
		require.True(t, strings.HasSuffix(out.String(), topLeave))

		// For programs: what can't be read is no object.
		ctx, cancel = context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		var errs strings.Builder
		out.Reset()
		require.NoError(t, watchTop(ctx, &looks{fail: gone, from: 2, to: 2}, &screen{out: &out, err: &errs, json: true}, false, time.Second))
		require.Len(t, strings.Split(strings.TrimSpace(out.String()), "\n"), 3)
		require.Equal(t, "not read, trying again: gone\n", errs.String())
	})
}

func TestTopOnADatabase(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	require.Contains(t, f.ok("top"), "no worker is registered")
	for _, sql := range []string{
		`INSERT INTO sched.worker (id, client_id, state, health, hostname, running, slots, ceiling, cpu, mem, demand, arrivals, forecast, score, score_cpu, score_mem, score_pending, elastic_reason)
			VALUES ('w-one', 'c', 'active', 'good', 'host-1', 7, 16, 64, 0.5, 0.1, 6, 140, 135.5, 0.43, 0.2, 0.03, 0.2, 'hold'), ('w-two', 'c', 'active', 'good', 'host-2', 0, 64, 64, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)`,
		`INSERT INTO sched.worker (id, client_id, state, ended_at) VALUES ('w-gone', 'c', 'done', now())`,
		`INSERT INTO sched.decision (what, subject, who, from_value, to_value, reason) VALUES ('slots', 'w-one', 'w-one', '8', '16', 'demand: 16 needed')`,
		`INSERT INTO sched.queue (name, base, pending, pressure, pressure_reason) VALUES ('calm', 'calm', 5, 'green', NULL), ('mail', 'mail', 950, 'red', 'pending 95 %')`,
		`UPDATE sched.fleet SET pressure = 'red', computed_at = clock_timestamp() + interval '1 minute'`,
	} {
		f.exec(sql)
	}
	text := f.ok("top", "--once")
	for _, want := range []string{"red", "2 workers", "135.5", "8>16 demand: 16 needed", "w-two", "pending 95 %"} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "w-gone")
	require.Less(t, strings.Index(text, "mail"), strings.Index(text, "calm"), "pressure first")
	objects := f.objects("top", "--once")
	require.Len(t, objects, 1)
	row, err := json.Marshal(objects[0])
	require.NoError(t, err)
	var top operator.Top
	require.NoError(t, json.Unmarshal(row, &top))
	require.Equal(t, "w-one", top.Workers[0].ID)
	require.InDelta(t, 0.2, *top.Workers[0].ScorePending, 1e-6)
	require.Nil(t, top.Workers[1].Forecast)
	require.EqualValues(t, 1000, top.Queues[0].FullAt)

	got := f.sched("top", "--interval", "1ms")
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.stderr, "--interval")
	got = runs(schedCommand([]string{"DATABASE_URL=postgres://nobody@127.0.0.1:1/none"}), nil, "top", "--once")
	require.NotEqual(t, exitOK, got.code)
	require.Contains(t, got.stderr, "127.0.0.1")
}
