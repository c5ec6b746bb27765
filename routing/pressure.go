package routing

import "fmt"

// Level is how close something is to its limits.
type Level int

// The levels.
const (
	Green Level = iota
	Yellow
	Red
)

// String returns the level as SQL has it.
func (l Level) String() string { return [...]string{"green", "yellow", "red"}[l] }

// parseLevel is the inverse of String; what it doesn't know is green.
func parseLevel(s string) Level {
	switch s {
	case "yellow":
		return Yellow
	case "red":
		return Red
	}
	return Green
}

// Thresholds say from which parts of a limit on pressure is yellow or red.
type Thresholds struct {
	PendingYellow, PendingRed float64 // of max_pending, 0 to 1
	LoadYellow, LoadRed       float64 // mean running ÷ ceiling, 0 to 1
	Hysteresis                float64 // how far below a threshold a level ends, 0 to 0.5
}

// DefaultThresholds hold where no setting says otherwise.
func DefaultThresholds() Thresholds {
	return Thresholds{PendingYellow: 0.7, PendingRed: 0.9, LoadYellow: 0.68, LoadRed: 0.85, Hysteresis: 0.05}
}

// PressureSignals are the measures of pressure.
type PressureSignals struct {
	Pending    int     // tasks available and due
	MaxPending int     // what counts as full; at least 1
	Load       float64 // mean running ÷ ceiling of the workers, 0 to 1
}

// Pressure is the level of each dimension; the higher one counts.
type Pressure struct{ Pending, Load Level }

// Level combines both dimensions: the higher of the two.
func (p Pressure) Level() Level { return max(p.Pending, p.Load) }

// Next decides the pressure after p. A level is reached at its threshold, at once,
// and left only below the threshold less the hysteresis: red to yellow below red's,
// yellow to green below yellow's, and red to green when it is below both.
func (p Pressure) Next(s PressureSignals, t Thresholds) Pressure {
	return Pressure{
		Pending: nextLevel(p.Pending, s.pendingPart(), t.PendingYellow, t.PendingRed, t.Hysteresis),
		Load:    nextLevel(p.Load, s.Load, t.LoadYellow, t.LoadRed, t.Hysteresis),
	}
}

// Reason says in words why the pressure is what it is. Empty: it is green.
func (p Pressure) Reason(s PressureSignals, t Thresholds) string {
	waiting := func() string {
		return fmt.Sprintf("%d of %d tasks wait: %s", s.Pending, s.MaxPending, phrase(p.Pending, s.pendingPart(), t.PendingYellow, t.PendingRed))
	}
	busy := func() string {
		return fmt.Sprintf("its workers are %.0f %% full: %s", 100*s.Load, phrase(p.Load, s.Load, t.LoadYellow, t.LoadRed))
	}
	switch {
	case p.Level() == Green:
		return ""
	case p.Pending == p.Load:
		return waiting() + "; " + busy()
	case p.Pending > p.Load:
		return waiting()
	default:
		return busy()
	}
}

func (s PressureSignals) pendingPart() float64 {
	return float64(s.Pending) / float64(max(s.MaxPending, 1))
}

func nextLevel(before Level, part, yellow, red, hysteresis float64) Level {
	up := levelOf(part, yellow, red)
	// Thresholds below which a level that holds is left; at 0 it would never be.
	down := levelOf(part, max(yellow-hysteresis, smallestPart), max(red-hysteresis, smallestPart))
	return max(up, min(before, down))
}

// smallestPart keeps a large hysteresis from holding a level when there is nothing.
const smallestPart = 1e-9

func levelOf(part, yellow, red float64) Level {
	switch {
	case part >= red:
		return Red
	case part >= yellow:
		return Yellow
	}
	return Green
}

func phrase(level Level, part, yellow, red float64) string {
	threshold := yellow
	if level == Red {
		threshold = red
	}
	if part < threshold {
		return fmt.Sprintf("%s from %.0f %% on, and not yet far enough below that", level, 100*threshold)
	}
	return fmt.Sprintf("%s from %.0f %% on", level, 100*threshold)
}
