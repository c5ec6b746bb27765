package console

import (
	"bytes"
	"context"
	"math"
	"time"

	"github.com/sched-sidecar/sched/sql/dbq"
)

const (
	// rateOver is the number of polls over which a rate is measured.
	rateOver = 3
	// countMax bounds what is counted, of each status or queue.
	countMax = 1000
	// endedMax bounds how many ended tasks are counted between two polls, of each status.
	endedMax = 50_000
	// startsMax is the number of started tasks of each status whose wait is looked at.
	startsMax = 200
	// rowsMax is the number of rows of a table that follows.
	rowsMax = 200
)

// sample is one poll, as the charts get it. What isn't known is null.
type sample struct {
	At       float64  `json:"t"` // seconds since 1970
	Enqueued *float64 `json:"enqueued"`
	Ended    *float64 `json:"ended"`
	Arrivals *float64 `json:"arrivals"`
	Forecast *float64 `json:"forecast"`
	Demand   *float64 `json:"demand"`
	Running  int32    `json:"running"`
	Slots    int32    `json:"slots"`
	Ceiling  int32    `json:"ceiling"`
	Pending  *int32   `json:"pending"`
	WaitP50  *float64 `json:"p50"` // seconds
	WaitP95  *float64 `json:"p95"`
	Pressure string   `json:"pressure"`

	at     time.Time
	lastID int64
	ended  int64
}

// source reads and renders what is live.
type source struct {
	reader *reader
	views  *views
}

func (s *source) sample(ctx context.Context, before []sample) (sample, error) {
	var row dbq.ConsoleSampleRow
	err := s.reader.read(ctx, func(ctx context.Context, q *dbq.Queries, now time.Time) (err error) {
		since := now.Add(-2 * pollEvery)
		if len(before) > 0 {
			since = before[len(before)-1].at
		}
		// After a pause a part is counted, rather than all that ended meanwhile.
		if oldest := now.Add(-rateOver * 2 * pollEvery); since.Before(oldest) {
			since = oldest
		}
		row, err = q.ConsoleSample(ctx, dbq.ConsoleSampleParams{Since: since, MaxCount: endedMax, MaxStarts: startsMax})
		return err
	})
	if err != nil {
		return sample{}, err
	}
	return newSample(row, before), nil
}

// newSample computes the rates of a poll from it and those before it.
func newSample(row dbq.ConsoleSampleRow, before []sample) sample {
	s := sample{
		At: float64(row.At.UnixMilli()) / 1000, Running: row.Running, Slots: row.Slots, Ceiling: row.Ceiling,
		Arrivals: known(row.Arrivals), Forecast: known(row.Forecast), Demand: known(row.Demand),
		WaitP50: known(row.WaitP50), WaitP95: known(row.WaitP95), Pressure: "unknown",
		at: row.At, lastID: row.LastID, ended: row.Ended,
	}
	if row.Led {
		s.Pressure = row.Pressure
		s.Pending = &row.Pending
	}
	recent := before[max(0, len(before)-rateOver):]
	if len(recent) == 0 {
		return s
	}
	seconds := s.at.Sub(recent[0].at).Seconds()
	if seconds <= 0 {
		return s
	}
	ended := s.ended
	for _, earlier := range recent[1:] {
		ended += earlier.ended
	}
	s.Enqueued = rounded(max(0, float64(s.lastID-recent[0].lastID)) / seconds)
	s.Ended = rounded(float64(ended) / seconds)
	return s
}

func known(v float64) *float64 {
	if v < 0 {
		return nil
	}
	return rounded(v)
}

// rounded keeps what a chart can show.
func rounded(v float64) *float64 {
	v = math.Round(v*1000) / 1000
	return &v
}

func (s *source) tables(ctx context.Context, of topic) ([]byte, error) {
	var body any
	err := s.reader.read(ctx, func(ctx context.Context, q *dbq.Queries, now time.Time) (err error) {
		switch of {
		case topicWorkers:
			body, err = readWorkers(ctx, q, now, false)
		case topicQueues:
			body, err = readQueues(ctx, q, now)
		default:
			body, err = readOverview(ctx, q, now)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var html bytes.Buffer
	err = s.views.live(&html, of, body)
	return html.Bytes(), err
}
