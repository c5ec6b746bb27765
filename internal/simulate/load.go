package simulate

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"time"
)

// Load is how many tasks arrive in each second.
type Load []float64

// Pattern is a shape of load that the generator knows.
type Pattern string

// The patterns.
const (
	Steps  Pattern = "steps"  // jumps between levels
	Ramps  Pattern = "ramps"  // up and down evenly
	Bursts Pattern = "bursts" // little, and now and then all of it
	Daily  Pattern = "daily"  // a day's season, with noise
)

// Patterns returns all of them.
func Patterns() []Pattern { return []Pattern{Steps, Ramps, Bursts, Daily} }

// Generate makes a load of a pattern that lasts so long and has its peak at so
// many tasks a second. The same seed makes the same load.
func Generate(pattern Pattern, length time.Duration, peak float64, seed uint64) (Load, error) {
	random := rand.New(rand.NewPCG(seed, 1))
	load := make(Load, int(length.Seconds()))
	n := float64(len(load))
	level, left := 1.0, 0
	for i := range load {
		at := float64(i) / n // 0 to 1
		switch pattern {
		case Steps:
			if left--; left < 0 {
				level, left = 0.1+0.9*random.Float64(), 30+random.IntN(90)
			}
			load[i] = level
		case Ramps:
			load[i] = 0.05 + 0.95*math.Abs(math.Mod(at*6, 2)-1)
		case Bursts:
			if left--; left < -30 && random.Float64() < 0.02 {
				level, left = 0.3+0.7*random.Float64(), 5+random.IntN(25)
			}
			load[i] = 0.05
			if left >= 0 {
				load[i] = level
			}
		case Daily: // the whole length is two days
			load[i] = max(0, 0.5-0.42*math.Cos(4*math.Pi*at)+0.04*random.NormFloat64())
		default:
			return nil, fmt.Errorf("pattern %q: there are %v", pattern, Patterns())
		}
	}
	return load.Scaled(peak), nil
}

// Scaled returns the load with its peak at so many tasks a second.
func (l Load) Scaled(peak float64) Load {
	most := 0.0
	for _, v := range l {
		most = max(most, v)
	}
	scaled := make(Load, len(l))
	for i, v := range l {
		if most > 0 {
			scaled[i] = v / most * peak
		}
	}
	return scaled
}

// Stretched returns the load with each value lasting so many seconds, and
// straight lines between them.
func (l Load) Stretched(seconds int) Load {
	stretched := make(Load, 0, len(l)*seconds)
	for i, v := range l {
		next := l[min(i+1, len(l)-1)]
		for s := range seconds {
			part := float64(s) / float64(seconds)
			stretched = append(stretched, v*(1-part)+next*part)
		}
	}
	return stretched
}

// Mean is its mean, in tasks a second.
func (l Load) Mean() float64 {
	sum := 0.0
	for _, v := range l {
		sum += v
	}
	return sum / max(float64(len(l)), 1)
}

// ReadTrace reads a trace: CSV with the columns timestamp and value, events in
// each interval. The values come as they are, one a second.
func ReadTrace(r io.Reader) (Load, error) {
	rows := csv.NewReader(r)
	rows.FieldsPerRecord = 2
	var load Load
	for line := 1; ; line++ {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		value, err := strconv.ParseFloat(row[1], 64)
		switch {
		case err != nil && line == 1: // the head
		case err != nil || math.IsNaN(value) || math.IsInf(value, 0) || value < 0:
			return nil, fmt.Errorf("line %d: %q is no number of events", line, row[1])
		default:
			load = append(load, value)
		}
	}
	if len(load) == 0 {
		return nil, errors.New("there is nothing in it")
	}
	return load, nil
}
