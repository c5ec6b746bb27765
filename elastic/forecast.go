package elastic

import (
	"math"
	"time"
)

const (
	// ForecastWindow is how far back a forecast looks.
	ForecastWindow = time.Minute
	// RefitAfter is how long forecasts must be bad before the smoothing is fitted
	// anew, and what it is fitted on.
	RefitAfter = 3 * time.Minute
	// RefitError is the error ratio above which a forecast is bad.
	RefitError = 0.3

	alphaMin, alphaMax, alphaStep = 0.05, 0.95, 0.05
	// refitGain is by how much another smoothing must be better to be worth it.
	refitGain = 0.02
)

// Forecast predicts the arrivals of the next second with an exponentially
// weighted moving average over a sliding window of a minute:
// q̂(t) = α·q(t) + (1−α)·q̂(t−1), where α is taken for a second and an interval of
// another length weighs accordingly.
//
// The zero Forecast is not usable: see [NewForecast].
type Forecast struct {
	set     float64 // the α that was asked for
	alpha   float64 // the α in use: set, or what was fitted since
	value   float64
	ratio   float64
	points  []point // of the last RefitAfter, in order
	bad     time.Time
	started bool
}

// point is one observation and what had been predicted for it.
type point struct {
	at        time.Time
	seconds   float64 // since the observation before
	actual    float64
	predicted float64
}

// Refit reports that the smoothing was fitted anew.
type Refit struct {
	From, To float64 // α
	Error    float64 // mean error ratio of the window that led to it
}

// NewForecast returns a forecast with smoothing α, 0 < α ≤ 1: the greater, the
// less the past counts.
func NewForecast(alpha float64) *Forecast {
	return &Forecast{set: alpha, alpha: alpha}
}

// SetAlpha moves α. What was fitted stays while the same α is asked for.
func (f *Forecast) SetAlpha(alpha float64) {
	if alpha == f.set {
		return
	}
	f.set, f.alpha, f.bad = alpha, alpha, time.Time{}
	f.recompute()
}

// Alpha returns the α in use.
func (f *Forecast) Alpha() float64 { return f.alpha }

// Value is the forecast for the next second, in tasks a second; 0 before the
// first observation.
func (f *Forecast) Value() float64 { return f.value }

// ErrorRatio is (actual − predicted) ÷ actual of the last observation. Without
// traffic it is 0 when none was predicted either, else −1: all of the forecast
// was too much.
func (f *Forecast) ErrorRatio() float64 { return f.ratio }

// Observe takes the arrivals a second since the observation before. It reports
// when forecasts were bad for so long that α was fitted anew: the mean error of
// a minute was above RefitError throughout RefitAfter. (The ratio of one second
// says little at low rates, where arrivals vary by more than that by chance.)
func (f *Forecast) Observe(at time.Time, rate float64) (Refit, bool) {
	if math.IsNaN(rate) || math.IsInf(rate, 0) || rate < 0 {
		rate = 0
	}
	seconds := 1.0
	if n := len(f.points); n > 0 {
		passed := at.Sub(f.points[n-1].at)
		if passed <= 0 {
			return Refit{}, false
		}
		seconds = passed.Seconds()
		if passed > ForecastWindow { // nothing of the window is left
			f.started, f.points, f.bad = false, f.points[:0], time.Time{}
			seconds = 1
		}
	}
	p := point{at: at, seconds: seconds, actual: rate, predicted: f.value}
	if !f.started { // nothing was predicted that could be wrong
		f.started, p.predicted, f.value = true, rate, rate
	}
	f.ratio = errorRatio(p.actual, p.predicted)
	f.value = smooth(f.alpha, p, f.value)
	f.keep(p)
	return f.refit(at)
}

// errorRatio is (actual − predicted) ÷ actual; see [Forecast.ErrorRatio].
func errorRatio(actual, predicted float64) float64 {
	if actual > 0 {
		return (actual - predicted) / actual
	}
	if predicted <= nothing {
		return 0
	}
	return -1
}

func smooth(alpha float64, p point, before float64) float64 {
	weight := alpha
	if p.seconds != 1 {
		weight = 1 - math.Pow(1-alpha, p.seconds)
	}
	return weight*p.actual + (1-weight)*before
}

// keep appends a point and drops those that are too old.
func (f *Forecast) keep(p point) {
	old := 0
	for old < len(f.points) && p.at.Sub(f.points[old].at) >= RefitAfter {
		old++
	}
	if old > 0 {
		f.points = f.points[:copy(f.points, f.points[old:])]
	}
	f.points = append(f.points, p)
}

// recent returns the points of the window.
func (f *Forecast) recent() []point {
	from := len(f.points)
	for from > 0 && f.points[len(f.points)-1].at.Sub(f.points[from-1].at) < ForecastWindow {
		from--
	}
	return f.points[from:]
}

// recompute brings the value to a new α.
func (f *Forecast) recompute() {
	window := f.recent()
	if len(window) == 0 {
		return
	}
	f.value = window[0].actual
	for _, p := range window[1:] {
		f.value = smooth(f.alpha, p, f.value)
	}
}

// MeanError is the mean error ratio of the window, 0 or more: what was predicted
// wrongly ÷ what came. 0 without traffic.
func (f *Forecast) MeanError() float64 {
	var wrong, came float64
	for _, p := range f.recent() {
		wrong += math.Abs(p.actual - p.predicted)
		came += p.actual
	}
	if came == 0 {
		return 0
	}
	return wrong / came
}

// refit looks for a better α when forecasts have been bad for long enough.
func (f *Forecast) refit(at time.Time) (Refit, bool) {
	mean := f.MeanError()
	switch {
	case mean <= RefitError:
		f.bad = time.Time{}
		return Refit{}, false
	case f.bad.IsZero():
		f.bad = at
		return Refit{}, false
	case at.Sub(f.bad) < RefitAfter:
		return Refit{}, false
	}
	f.bad = at // the next look is as long from now
	best, least := f.alpha, f.squares(f.alpha)*(1-refitGain)
	for i := range int(math.Round((alphaMax-alphaMin)/alphaStep)) + 1 {
		alpha := math.Round((alphaMin+float64(i)*alphaStep)*100) / 100
		if squares := f.squares(alpha); squares < least {
			best, least = alpha, squares
		}
	}
	if best == f.alpha {
		return Refit{}, false
	}
	event := Refit{From: f.alpha, To: best, Error: mean}
	f.alpha = best
	f.recompute()
	return event, true
}

// squares is the sum of squared errors that α would have made.
func (f *Forecast) squares(alpha float64) float64 {
	value, sum := f.points[0].actual, 0.0
	for _, p := range f.points[1:] {
		miss := p.actual - value
		sum += miss * miss
		value = smooth(alpha, p, value)
	}
	return sum
}
