package simulate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/sched-sidecar/sched/elastic"
)

// Config is a fleet and what it is to do.
type Config struct {
	App      App
	Load     Load // of the whole fleet
	Workers  int
	Ceiling  int // of each
	Settings elastic.Settings
	Model    Model
	Seed     uint64 // of the chance with which tasks arrive
}

const (
	cohortsMax = 4
	// spread is by how much the fastest cohort is faster than the slowest.
	spread  = 0.2
	stepMax = 100 * time.Millisecond
)

// Validate says what is wrong with it.
func (c Config) Validate() error {
	switch {
	case c.Workers < 1 || c.Workers > 1e6:
		return fmt.Errorf("workers %d: must be 1 to 1000000", c.Workers)
	case c.Ceiling < 1 || c.Ceiling > elastic.MinMax:
		return fmt.Errorf("ceiling %d: must be 1 to %d", c.Ceiling, elastic.MinMax)
	case len(c.Load) == 0:
		return errors.New("there is no load")
	}
	return errors.Join(c.App.Validate(), c.Settings.Validate())
}

// cohort are workers of one speed, which decide alike.
type cohort struct {
	workers float64
	speed   float64
	decider decider
	slots   int

	running float64 // of one worker, as all below
	second  measured
	carry   float64 // of tasks that ended: what is no whole one yet
}

// measured is what one worker did within a second.
type measured struct {
	claimed, ended, held, peak float64
}

// fleet is a run under way.
type fleet struct {
	config  Config
	cohorts []*cohort
	queue   fifo
	random  *rand.Rand
	now     time.Duration
	before  float64 // backlog a second ago
	result  Result
}

// Run plays the load under a policy.
func Run(ctx context.Context, config Config, policy Policy) (Result, error) {
	if err := config.Validate(); err != nil {
		return Result{}, err
	}
	f := &fleet{config: config, random: rand.New(rand.NewPCG(config.Seed, 2))}
	f.result = newResult(policy, len(config.Load))
	n := min(config.Workers, cohortsMax)
	for i := range n {
		decider, slots, err := newDecider(policy, config)
		if err != nil {
			return Result{}, err
		}
		speed := 1.0
		if n > 1 {
			speed += spread * (float64(i)/float64(n-1) - 0.5)
		}
		f.cohorts = append(f.cohorts, &cohort{workers: float64(config.Workers) / float64(n), speed: speed, decider: decider, slots: slots})
	}
	steps := int(math.Ceil(time.Second.Seconds() / min(stepMax.Seconds(), config.App.Service.Seconds()/2)))
	for second, rate := range config.Load {
		if err := ctx.Err(); err != nil {
			return Result{}, err
		}
		for range steps {
			f.step(second, rate, time.Second/time.Duration(steps))
		}
		f.decide(second, rate)
	}
	f.result.finish()
	return f.result, nil
}

func newDecider(policy Policy, config Config) (decider, int, error) {
	least := min(config.Settings.Min, config.Ceiling)
	switch policy {
	case Elastic:
		forecast, err := newForecaster(config.Model, config.Settings.EffectiveAlpha())
		if err != nil {
			return nil, 0, err
		}
		if config.Model == Naive {
			config.Settings.Alpha = 1
		}
		return elasticPolicy{elastic.NewControllerWith(config.Settings, forecast)}, least, nil
	case Reactive:
		return &reactive{settings: config.Settings}, least, nil
	case FixedMin:
		return fixed(least), least, nil
	case FixedMax:
		return fixed(config.Ceiling), config.Ceiling, nil
	default:
		return nil, 0, fmt.Errorf("policy %q: there are %v", policy, Policies())
	}
}

// step plays a moment: tasks arrive, free slots take them, some end.
func (f *fleet) step(second int, rate float64, length time.Duration) {
	f.now += length
	dt := length.Seconds()
	if arrived := poisson(f.random, rate*dt); arrived > 0 {
		f.queue.push(f.now, arrived)
		f.result.Arrived += arrived
	}
	free := 0.0
	for _, c := range f.cohorts {
		free += max(0, float64(c.slots)-c.running) * c.workers
	}
	taken := min(free, f.queue.count)
	f.queue.pop(f.now, taken, func(wait time.Duration, tasks float64) { f.result.waited(second, wait, tasks) })
	for _, c := range f.cohorts {
		if free > 0 {
			share := max(0, float64(c.slots)-c.running) * taken / free
			c.running += share
			c.second.claimed += share
		}
		c.second.peak = max(c.second.peak, c.running)
		c.second.held += c.running * dt
		ended := min(f.config.App.rate(c.running, c.speed)*dt, c.running)
		c.running -= ended
		c.second.ended += ended
		f.result.Ended += ended * c.workers
		f.result.SlotSeconds += float64(c.slots) * c.workers * dt
	}
}

// decide ends a second: each cohort is told what one of its workers measured.
func (f *fleet) decide(second int, rate float64) {
	now, total, running := time.Unix(0, 0).Add(f.now), 0.0, 0.0
	for _, c := range f.cohorts {
		total += float64(c.slots) * c.workers
		running += c.second.held * c.workers
	}
	for _, c := range f.cohorts {
		share := float64(c.slots) / max(total, 1)
		s := c.sample(f.config, share, f.queue.count, f.before)
		s.At = now
		slots, reason := c.decider.decide(now, s)
		if slots != c.slots {
			f.result.Changes += c.workers
		}
		f.result.Reasons[reason]++
		c.slots, c.second = slots, measured{}
	}
	f.before = f.queue.count
	f.result.record(second, Point{Demand: rate * f.config.App.Service.Seconds(), Slots: total, Running: running, Backlog: f.queue.count})
}

// sample is what a worker of the cohort measured: of what waits, its share by
// slots, and what came is what it claimed and what its share grew by.
func (c *cohort) sample(config Config, share, backlog, before float64) elastic.Sample {
	s := elastic.Sample{
		Slots: c.slots, Ceiling: config.Ceiling, Running: c.second.held,
		Arrivals: elastic.Arrivals(c.second.claimed, 1, elastic.Backlogs{"": {Share: share, Waiting: before}}, elastic.Backlogs{"": {Share: share, Waiting: backlog}}),
		Pending:  int(math.Round(share * backlog)), Waiting: int(min(backlog, math.MaxInt32)),
		CPU: config.App.cpu(c.second.held), Mem: config.App.mem(c.second.held),
		// A slot that ends a task takes the next one within the step.
		Peak: int(math.Round(c.second.peak)),
	}
	c.carry += c.second.ended
	s.Ended = int(c.carry)
	c.carry -= float64(s.Ended)
	if c.second.ended > 0 {
		s.Service = time.Duration(c.second.held / c.second.ended * float64(time.Second))
	}
	return s
}

// poisson draws how many tasks arrive when mean do on average.
func poisson(random *rand.Rand, mean float64) float64 {
	if mean > 50 {
		return max(0, math.Round(mean+math.Sqrt(mean)*random.NormFloat64()))
	}
	n, product, limit := -1.0, 1.0, math.Exp(-mean)
	for product > limit {
		product *= random.Float64()
		n++
	}
	return n
}
