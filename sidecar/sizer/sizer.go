package sizer

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sched-sidecar/sched/elastic"
	"github.com/sched-sidecar/sched/routing"
	"github.com/sched-sidecar/sched/sidecar/governor"
	"github.com/sched-sidecar/sched/sidecar/load"
	"github.com/sched-sidecar/sched/sql/dbq"
)

const (
	interval    = time.Second
	readTimeout = 900 * time.Millisecond
	// forgetLoad is after how long a load that is known no more counts as never known.
	forgetLoad = 15 * time.Second
	// publishStep is by which part of itself demand must change to be written.
	publishStep = 0.1
)

// Governor is whose slots are moved: [governor.Governor].
type Governor interface {
	Tally() governor.Tally
	Status() governor.Status
	SetSlots(n int) error
	Note(d routing.Decision)
}

// Store is where this worker's share of what waits, and the settings, are read and
// what was found is written: [dbq.Queries].
type Store interface {
	ElasticRead(ctx context.Context, arg dbq.ElasticReadParams) (dbq.ElasticReadRow, error)
	WorkerElastic(ctx context.Context, arg dbq.WorkerElasticParams) error
}

// Config is what a sizer needs.
type Config struct {
	Governor Governor
	Store    Store
	// Load returns what the app uses, and whether that is known: see [load.Usage.App].
	// What was never known limits nothing; what is known no more stops all moves for a
	// while.
	Load       func() (app load.Usage, known bool)
	Observe    bool   // decide, but don't apply
	AppDown    string // the hold that is on while the app is down
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Now        func() time.Time // nil: time.Now
}

// Sizer moves the slots while it runs.
type Sizer struct {
	config     Config
	controller *elastic.Controller
	metrics    *metrics
	settings   string // as read last

	backlogs  elastic.Backlogs // as read last; nil: not known
	queues    int64            // which those are of
	loadAt    time.Time        // when the app's load was known last; zero: it never was
	said      dbq.WorkerElasticParams
	shadow    int // slots that there would be, observing
	lastCause elastic.Reason
}

// New returns a sizer that does nothing until [Sizer.Run].
func New(config Config) *Sizer {
	if config.Now == nil {
		config.Now = time.Now
	}
	return &Sizer{config: config, controller: elastic.NewController(elastic.DefaultSettings()), metrics: newMetrics(config.Registerer)}
}

// Run decides each second until ctx ends.
func (s *Sizer) Run(ctx context.Context) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	s.config.Governor.Tally() // what was before is nobody's second
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			s.Step(ctx)
		}
	}
}

// Step samples, decides and applies once.
func (s *Sizer) Step(ctx context.Context) {
	status := s.config.Governor.Status()
	tally := s.config.Governor.Tally()
	sample := s.sample(ctx, status, tally)
	d := s.controller.Decide(s.config.Now(), sample)
	s.metrics.observe(sample, d)
	if d.Refit != nil {
		s.config.Logger.InfoContext(ctx, "forecasts were wrong for minutes: smoothing fitted anew",
			slog.Float64("from", d.Refit.From), slog.Float64("to", d.Refit.To), slog.Float64("error_ratio", d.Refit.Error))
	}
	s.apply(ctx, sample, d)
	s.publish(ctx, status.WorkerID, sample, d)
}

// sample gathers what there is. A part that couldn't be had makes all of it old.
func (s *Sizer) sample(ctx context.Context, status governor.Status, tally governor.Tally) elastic.Sample {
	sample := elastic.Sample{
		At: s.config.Now(), Slots: status.Slots, Ceiling: status.Ceiling,
		Ended: tally.Ended, PushBack: tally.PushBack, Running: tally.Running, Peak: tally.Peak,
		// An app that holds nothing at once is on its way, or gone.
		AppDown:  slices.Contains(status.Holds, s.config.AppDown) || status.Slots == 0,
		Observed: s.config.Observe,
	}
	if s.config.Observe && s.shadow > 0 {
		sample.Slots = s.shadow
	}
	if tally.Ended > 0 {
		sample.Service = tally.Held / time.Duration(tally.Ended)
	}
	if app, known := s.config.Load(); known {
		sample.CPU, sample.Mem, sample.Cores = app.CPU, app.Mem, app.Cores
		s.loadAt = sample.At
	} else if sample.At.Sub(s.loadAt) < forgetLoad {
		sample.At = s.loadAt
	}
	seconds := max(tally.Since.Seconds(), 0.001)
	claimed := float64(tally.Claimed)
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	row, err := s.config.Store.ElasticRead(ctx, dbq.ElasticReadParams{Queues: status.Queues, WorkerID: status.WorkerID})
	if err != nil {
		s.config.Logger.DebugContext(ctx, "what waits could not be read", slog.Any("error", err))
		sample.At, s.backlogs = time.Time{}, nil
		sample.Arrivals = claimed / seconds
		return sample
	}
	s.set(ctx, row.Settings)
	sample.At = sample.At.Add(-time.Duration(min(row.AgeSeconds, 1e6) * float64(time.Second)))
	now := make(elastic.Backlogs, len(row.Queues))
	for i, name := range row.Queues {
		now[name] = elastic.Backlog{Share: row.Shares[i], Waiting: float64(row.Pending[i])}
	}
	if row.Served != s.queues {
		s.backlogs = nil
	}
	sample.Arrivals = elastic.Arrivals(claimed, seconds, s.backlogs, now)
	s.backlogs, s.queues = now, row.Served
	sample.Pending, sample.Waiting = int(math.Round(now.Pending())), int(min(now.Waiting(), math.MaxInt32))
	return sample
}

// set puts settings in force that changed.
func (s *Sizer) set(ctx context.Context, text string) {
	if text == s.settings {
		return
	}
	s.settings = text
	var raw map[string]json.RawMessage
	rows := map[string]string{}
	err := json.Unmarshal([]byte(text), &raw)
	for key, value := range raw {
		rows[key] = string(value)
	}
	settings, parseErr := elastic.ParseSettings(rows)
	if err != nil || parseErr != nil {
		s.config.Logger.WarnContext(ctx, "elastic settings don't fit: the ones before stay", slog.Any("error", errors.Join(err, parseErr)))
		return
	}
	s.controller.Set(settings)
}

// apply moves the slots, and says so.
func (s *Sizer) apply(ctx context.Context, sample elastic.Sample, d elastic.Decision) {
	before := sample.Slots
	s.shadow = d.Slots
	log := slog.LevelDebug
	if d.Slots != before {
		log = slog.LevelInfo
	}
	s.config.Logger.Log(ctx, log, "slots decided", slog.Int("from", before), slog.Int("to", d.Slots),
		slog.String("reason", string(d.Reason)), slog.String("detail", d.Detail), slog.Bool("observing", s.config.Observe))
	changed := d.Slots != before || (d.Reason != s.lastCause && (d.Reason == elastic.ReasonFrozen || d.Reason == elastic.ReasonStale))
	s.lastCause = d.Reason
	if changed {
		s.note(before, d, sample)
	}
	if s.config.Observe || d.Slots == before {
		return
	}
	s.metrics.changes.WithLabelValues(string(d.Reason)).Inc()
	if err := s.config.Governor.SetSlots(d.Slots); err != nil {
		s.config.Logger.ErrorContext(ctx, "slots not moved", slog.Any("error", err))
	}
}

// note has a decision written to sched.decision.
func (s *Sizer) note(before int, d elastic.Decision, sample elastic.Sample) {
	reason := string(d.Reason)
	if d.Detail != "" {
		reason += ": " + d.Detail
	}
	what := "slots"
	if s.config.Observe {
		what = "slots observed"
	}
	s.config.Governor.Note(routing.Decision{
		What: what, Subject: s.config.Governor.Status().WorkerID, From: strconv.Itoa(before), To: strconv.Itoa(d.Slots), Reason: reason,
		Signals: map[string]any{
			"arrivals": round(sample.Arrivals), "forecast": round(d.Forecast), "service_ms": d.Service.Milliseconds(), "demand": round(d.Demand),
			"pending": sample.Pending, "running": round(sample.Running), "cpu": round(sample.CPU), "mem": round(sample.Mem),
			"push_back": sample.PushBack, "score": round(d.Score.Total),
		},
	})
}

func round(v float64) float64 { return math.Round(v*1000) / 1000 }

// publish writes to this worker's row what changed in it.
func (s *Sizer) publish(ctx context.Context, workerID string, sample elastic.Sample, d elastic.Decision) {
	row := dbq.WorkerElasticParams{
		ID: workerID, Demand: float4(d.Demand), Arrivals: float4(sample.Arrivals), Forecast: float4(d.Forecast), Score: float4(d.Score.Total),
		ScoreCpu: float4(d.Score.CPU), ScoreMem: float4(d.Score.Mem), ScorePending: float4(d.Score.Pending),
		ScaleOut: d.ScaleOut, Reason: pgtype.Text{String: string(d.Reason), Valid: true},
	}
	if d.Reason == elastic.ReasonStale || d.Reason == elastic.ReasonFrozen { // nothing new is known
		row.Demand, row.Arrivals, row.Score = s.said.Demand, s.said.Arrivals, s.said.Score
		row.ScoreCpu, row.ScoreMem, row.ScorePending = s.said.ScoreCpu, s.said.ScoreMem, s.said.ScorePending
	}
	if !s.news(row) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if err := s.config.Store.WorkerElastic(ctx, row); err != nil {
		s.config.Logger.DebugContext(ctx, "demand not written", slog.Any("error", err))
		return
	}
	s.said = row
}
