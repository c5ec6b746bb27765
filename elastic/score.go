package elastic

import (
	"fmt"
	"math"
)

// PendingFull is how many waiting tasks count as all that can wait, in a score.
const PendingFull = 1000

// weightSlack is how far the sum of weights may be off 1.
const weightSlack = 0.001

// Weights are what cpu, memory and waiting tasks count for in a score. None is
// below 0 and together they are 1.
type Weights struct {
	CPU     float64
	Mem     float64
	Pending float64
}

// Validate says what is wrong with the weights.
func (w Weights) Validate() error {
	for _, part := range []float64{w.CPU, w.Mem, w.Pending} {
		if !(part >= 0 && part <= 1) {
			return fmt.Errorf("weights %s: each must be 0 to 1", w)
		}
	}
	if sum := w.CPU + w.Mem + w.Pending; math.Abs(sum-1) > weightSlack+1e-9 {
		return fmt.Errorf("weights %s: together they are %.4g and must be 1", w, sum)
	}
	return nil
}

// String is cpu/memory/pending.
func (w Weights) String() string { return fmt.Sprintf("%.4g/%.4g/%.4g", w.CPU, w.Mem, w.Pending) }

// Profile is a name for weights.
type Profile string

// The profiles.
const (
	ProfileDefault  Profile = "default"  // 0.4/0.3/0.3
	ProfileCompute  Profile = "compute"  // 0.6/0.2/0.2
	ProfileMemory   Profile = "memory"   // 0.2/0.6/0.2
	ProfileRealtime Profile = "realtime" // 0.25/0.25/0.5
)

// Profiles returns all of them.
func Profiles() []Profile {
	return []Profile{ProfileDefault, ProfileCompute, ProfileMemory, ProfileRealtime}
}

// Weights returns the profile's, and whether there is such a profile.
func (p Profile) Weights() (Weights, bool) {
	switch p {
	case ProfileDefault:
		return Weights{CPU: 0.4, Mem: 0.3, Pending: 0.3}, true
	case ProfileCompute:
		return Weights{CPU: 0.6, Mem: 0.2, Pending: 0.2}, true
	case ProfileMemory:
		return Weights{CPU: 0.2, Mem: 0.6, Pending: 0.2}, true
	case ProfileRealtime:
		return Weights{CPU: 0.25, Mem: 0.25, Pending: 0.5}, true
	default:
		return Weights{}, false
	}
}

// Score is the joint score of a moment, with its parts: each 0 to 1 times its
// weight, so that they add up to Total, 0 to 1.
type Score struct {
	CPU     float64
	Mem     float64
	Pending float64
	Total   float64
}

// Joint returns the score of cpu and mem, each 0 to 1, and of the tasks that
// wait: w.CPU·cpu + w.Mem·mem + w.Pending·min(pending ÷ PendingFull, 1).
func (w Weights) Joint(cpu, mem float64, pending int) Score {
	s := Score{CPU: w.CPU * share(cpu), Mem: w.Mem * share(mem), Pending: w.Pending * share(float64(pending)/PendingFull)}
	s.Total = s.CPU + s.Mem + s.Pending
	return s
}

// share bounds a number to 0 … 1; what is no number is 0.
func share(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return min(max(v, 0), 1)
}
