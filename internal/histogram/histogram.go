// Package histogram says what all histograms of the project have in common. It imports nothing of the project, so
// that each package with metrics may use it.
package histogram

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Of returns the options of the histogram sched_name: classic buckets and, for a server that asks for them, native
// ones, each 10 % wider than the one before, at most 100 of them and renewed once an hour at most.
func Of(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Namespace: "sched", Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
	}
}
