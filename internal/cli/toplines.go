package cli

import (
	"fmt"
	"math"
	"strings"

	"github.com/sched-sidecar/sched/internal/operator"
)

// topLines draws the fleet: no line is wider than width, and there are no more lines
// than height, where those are above 0.
func topLines(top operator.Top, width, height int, colored bool) []string {
	lines := topHead(top, width, colored)
	room := 0
	if height > 0 {
		// Beside both titles, the line between, and a line each that says how many more.
		room = max(2, height-len(lines)-5)
	}
	workers, queues := len(top.Workers), len(top.Queues)
	if room > 0 && workers+queues > room {
		queues = min(queues, max(room/3, room-workers))
		workers = min(workers, room-queues)
	}
	switch {
	case len(top.Workers) == 0:
		lines = append(lines, "no worker is registered: start sched-sidecar beside an app")
	default:
		lines = append(lines, tableLines(topWorkers(top, workers), width, colored)...)
		lines = more(lines, len(top.Workers)-workers, "worker")
	}
	if len(top.Queues) > 0 {
		lines = append(lines, "")
		lines = append(lines, tableLines(topQueues(top.Queues[:queues]), width, colored)...)
		lines = more(lines, len(top.Queues)-queues, "queue")
	}
	if height > 0 && len(lines) > height {
		lines = lines[:height]
	}

	return lines
}

func more(lines []string, n int, what string) []string {
	if n > 0 {
		lines = append(lines, "… "+plural(n, "more "+what))
	}

	return lines
}

// topHead is the fleet in a few lines.
func topHead(top operator.Top, width int, colored bool) []string {
	f := top.Fleet
	pressure := f.Pressure
	if !f.Led {
		pressure = "nobody leads"
	}
	workers := plural(f.Workers, "worker")
	if f.Draining > 0 {
		workers += fmt.Sprintf(" and %d draining", f.Draining)
	}
	lines := []string{
		fmt.Sprintf("sched top  %s  %s", f.At.Local().Format("15:04:05"), pressure),
		fmt.Sprintf("%s, %d wanted: %s", workers, f.Desired, f.Reason),
		fmt.Sprintf("%s running, %s of %s slots", number(f.Running), number(f.Slots), number(f.Ceiling)),
	}
	if measured(top.Workers) {
		lines[2] += fmt.Sprintf("; %.1f/s arrive, %.1f/s expected, %.1f slots needed", f.Arrivals, f.Forecast, f.Demand)
	}
	for i := range lines {
		if lines[i] = clean(lines[i]); width > 0 {
			lines[i] = cut(lines[i], width)
		}
	}
	if c := levelColor(f.Pressure); colored && f.Led && c != "" {
		lines[0] = strings.Replace(lines[0], pressure, c.paint(pressure), 1)
	}

	return append(lines, "")
}

// measured reports whether any worker measures what arrives.
func measured(workers []operator.TopWorker) bool {
	for _, w := range workers {
		if w.Forecast != nil {
			return true
		}
	}

	return false
}

func topWorkers(top operator.Top, n int) *table {
	t := &table{columns: []column{
		{title: "WORKER"},
		{title: "RUNS", right: true},
		{title: "SLOTS", right: true},
		{title: "ARRIVE", right: true, spare: true},
		{title: "EXPECT", right: true},
		{title: "SCORE", right: true},
		{title: "CPU", right: true},
		{title: "MEM", right: true},
		{title: "WAIT", right: true},
		{title: "WHY", flexible: true},
		{title: "HOST", flexible: true, spare: true},
	}}
	for _, w := range top.Workers[:n] {
		why, paint := topWhy(w, top.Fleet)
		colors := map[int]color{9: paint}
		if w.State == "draining" {
			colors[0] = yellow
		} else if !w.Alive {
			colors[0] = red
		}
		t.add(colors, w.ID, number(w.Running), fmt.Sprintf("%d/%d", w.Slots, w.Ceiling), rate(w.Arrivals), rate(w.Forecast),
			part(w.Score), part(w.ScoreCPU), part(w.ScoreMem), part(w.ScorePending), why, w.Hostname)
	}

	return t
}

// topWhy says why a worker has the slots that it has, or why it takes nothing.
func topWhy(w operator.TopWorker, f operator.TopFleet) (string, color) {
	switch {
	case !w.Alive:
		return "silent for " + span(f.At.Sub(w.HeartbeatAt)), red
	case w.State == "draining":
		return "draining", yellow
	case len(w.Holds) > 0:
		return "takes nothing: " + strings.Join(w.Holds, ", "), red
	}
	why := w.Reason
	if w.ScaleOut {
		why += ", scale out"
	}
	// What moved the slots last says more, but not once it is old.
	const recent = 10
	if w.SlotsAt != nil && f.At.Sub(*w.SlotsAt).Seconds() <= recent && w.SlotsFrom != w.SlotsTo {
		why = fmt.Sprintf("%s>%s %s", w.SlotsFrom, w.SlotsTo, w.SlotsReason)
	}
	if w.Health != "" && w.Health != "good" {
		return strings.TrimPrefix(w.Health+", "+why, ", "), yellow
	}

	return why, ""
}

func topQueues(queues []operator.TopQueue) *table {
	t := &table{columns: []column{
		{title: "QUEUE", flexible: true},
		{title: "PRESSURE"},
		{title: "PENDING", right: true},
		{title: "LOAD", right: true},
		{title: "WORKERS", right: true},
		{title: "FREE", right: true},
		{title: "NOTE", flexible: true, optional: true},
	}}
	for _, q := range queues {
		note := q.PressureReason
		switch {
		case q.PausedAt != nil:
			note = "paused since " + localTime(*q.PausedAt)
		case q.Unroutable != "":
			note = "nobody offers " + q.Unroutable
		}
		t.add(map[int]color{1: levelColor(q.Pressure)}, q.Name, q.Pressure, atLeast(q.Pending, q.Pending >= q.FullAt),
			fmt.Sprintf("%.0f %%", 100*q.Load), number(q.Workers), number(q.FreeSlots), note)
	}

	return t
}

// tableLines is a table, cut to the width.
func tableLines(t *table, width int, colored bool) []string {
	var b strings.Builder
	_ = t.write(&b, width, colored) // a builder takes everything

	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}

// rate shows tasks a second, if they are known.
func rate(v *float64) string {
	switch {
	case v == nil:
		return none
	case math.Abs(*v) >= 1000:
		return number(int64(math.Round(*v)))
	default:
		return fmt.Sprintf("%.1f", *v)
	}
}

// part shows a part of 1, if it is known.
func part(v *float64) string {
	if v == nil {
		return none
	}

	return fmt.Sprintf("%.2f", *v)
}
