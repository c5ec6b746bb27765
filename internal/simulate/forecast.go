package simulate

import (
	"fmt"
	"math"
	"time"

	"github.com/sched-sidecar/sched/elastic"
)

// Model is a way to forecast.
type Model string

// The models.
const (
	EWMA  Model = "ewma"  // what sidecars do
	Naive Model = "naive" // the next second is as the last
	Holt  Model = "holt"  // level and damped trend
)

// Models returns all of them.
func Models() []Model { return []Model{EWMA, Naive, Holt} }

func newForecaster(model Model, alpha float64) (elastic.Forecaster, error) {
	switch model {
	case EWMA:
		return elastic.NewForecast(alpha), nil
	case Naive:
		return elastic.NewForecast(1), nil
	case Holt:
		return &holt{alpha: alpha}, nil
	default:
		return nil, fmt.Errorf("model %q: there are %v", model, Models())
	}
}

// holt is exponential smoothing of level and trend, the trend damped: Gardner and
// McKenzie, "Forecasting Trends in Time Series" (1985).
type holt struct {
	alpha, level, trend, ratio float64
	started                    bool
}

const (
	holtBeta    = 0.1
	holtDamping = 0.9
)

func (h *holt) Observe(_ time.Time, rate float64) (elastic.Refit, bool) {
	if !h.started {
		h.started, h.level = true, rate
		return elastic.Refit{}, false
	}
	expected := h.Value()
	if h.ratio = 0; rate > 0 {
		h.ratio = (rate - expected) / rate
	}
	before := h.level
	h.level = h.alpha*rate + (1-h.alpha)*expected
	h.trend = holtBeta*(h.level-before) + (1-holtBeta)*holtDamping*h.trend
	return elastic.Refit{}, false
}

func (h *holt) Value() float64         { return max(0, h.level+holtDamping*h.trend) }
func (h *holt) ErrorRatio() float64    { return h.ratio }
func (h *holt) SetAlpha(alpha float64) { h.alpha = alpha }

// MASE is the mean absolute scaled error of a model's forecasts, one value ahead:
// its mean error by that of taking the next value for the last one (Hyndman and
// Koehler 2006). Below 1 is better than that. alpha is the model's smoothing.
func MASE(model Model, alpha float64, load Load) (float64, error) {
	f, err := newForecaster(model, alpha)
	if err != nil {
		return 0, err
	}
	if model == Naive {
		return 1, nil // what it is measured by
	}
	var wrong, naive float64
	for i, v := range load {
		if i > 0 {
			wrong += math.Abs(v - f.Value())
			naive += math.Abs(v - load[i-1])
		}
		f.Observe(time.Unix(int64(i), 0), v)
	}
	if naive == 0 {
		return 0, nil
	}
	return wrong / naive, nil
}
