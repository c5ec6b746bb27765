package bench

import (
	"math"
	"slices"
)

// median is the middle of the values, or the mean of the two in the middle; NaN
// of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// percentile is the smallest value that at least the share p (0..1] of the values
// doesn't exceed (nearest rank); NaN of none.
func percentile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(p * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// medianOf is the median of one measure over rounds.
func medianOf[R any](rounds []R, measure func(R) float64) float64 {
	values := make([]float64, len(rounds))
	for i, round := range rounds {
		values[i] = measure(round)
	}
	return median(values)
}
