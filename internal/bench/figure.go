package bench

import (
	"fmt"
	"math"
	"strconv"
)

// Figure is one measured value and the bound that it is held to.
type Figure struct {
	Name   string  `json:"figure"` // scenario.variant.measure
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Bound  Bound   `json:"bound"`
	OK     bool    `json:"ok"`
	Rounds int     `json:"rounds"` // how many rounds the value is the median of
}

// newFigure judges the value as it is shown, so that no figure looks as if it
// met a bound that it missed.
func newFigure(name string, value float64, unit string, bound Bound, rounds int) Figure {
	value = shown(value)
	return Figure{Name: name, Value: value, Unit: unit, Bound: bound, OK: bound.holds(value), Rounds: rounds}
}

// Bound is what a figure must hold. The zero Bound holds always: the figure is
// reported only.
type Bound struct {
	comparison comparison
	limit      float64
	most       float64 // of within
}

type comparison uint8

const (
	reported comparison = iota
	atMost
	atLeast
	within
)

// AtMost is the bound of a figure that must not be greater than limit.
func AtMost(limit float64) Bound { return Bound{comparison: atMost, limit: limit} }

// AtLeast is the bound of a figure that must not be less than limit.
func AtLeast(limit float64) Bound { return Bound{comparison: atLeast, limit: limit} }

// Within is the bound of a figure that must be neither less than least nor greater
// than most.
func Within(least, most float64) Bound { return Bound{comparison: within, limit: least, most: most} }

func (b Bound) holds(value float64) bool {
	switch b.comparison {
	case atMost:
		return value <= b.limit
	case atLeast:
		return value >= b.limit
	case within:
		return value >= b.limit && value <= b.most
	case reported:
	}
	return !math.IsNaN(value)
}

// String is the bound as docs/verify.md shows it: ">= 1.4", "<= 0", "15..40",
// "reported".
func (b Bound) String() string {
	switch b.comparison {
	case atMost:
		return "<= " + number(b.limit)
	case atLeast:
		return ">= " + number(b.limit)
	case within:
		return number(b.limit) + ".." + number(b.most)
	case reported:
	}
	return "reported"
}

// MarshalText makes the bound a string in JSON.
func (b Bound) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// shown rounds to what a measurement can tell: whole numbers from 1000 on, four
// significant digits below.
func shown(value float64) float64 {
	if value == 0 || math.IsNaN(value) || math.IsInf(value, 0) {
		return value
	}
	if math.Abs(value) >= 1000 {
		return math.Round(value)
	}
	rounded, err := strconv.ParseFloat(fmt.Sprintf("%.4g", value), 64)
	if err != nil {
		return value
	}
	return rounded
}

func number(value float64) string { return strconv.FormatFloat(value, 'f', -1, 64) }
