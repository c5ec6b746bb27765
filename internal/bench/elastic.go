package bench

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ElasticConfig is what a sidecar that sizes itself is put to.
type ElasticConfig struct {
	Parts    []string      // which of [ElasticParts] to measure
	Duration time.Duration // of a run; a fixed setting that it is compared with runs for a third of it
	Ceiling  int           // slots at most, and those of the greatest fixed setting
	Cores    int           // that the app which computes may use; 0: half of the machine's

	IOWork   time.Duration // that tasks of the app wait which bears any number of them
	Low      float64       // tasks a second before and after the step
	High     float64       // tasks a second in between
	CPUWork  time.Duration // that tasks of the app compute which is bounded by its cores
	Width    int           // tasks at once that the downstream of the third app works on
	DownWork time.Duration // that it takes for each

	Refuse   time.Duration // how long an app turns tasks down
	Recover  time.Duration // how long its slots are watched after that
	Excluded time.Duration // after a step of the arrivals, in which waits don't count
	Watch    time.Duration // how long slots are watched under a profile

	// The fixed settings that are compared with; nil: chosen by what the apps bear.
	IOSweep, CPUSweep, DownSweep []int

	Resizes int
	Beats   int // decisions whose cost is measured
}

// ElasticParts are what the elastic scenario is made of.
func ElasticParts() []string {
	return []string{partStep, partCPU, partDownstream, partJoint, partPushBack, partResize, partController}
}

const (
	partStep       = "io_step"
	partCPU        = "cpu_bound"
	partDownstream = "downstream"
	partJoint      = "joint"
	partPushBack   = "pushback"
	partResize     = "resize"
	partController = "controller"
)

func defaultElastic() ElasticConfig {
	return ElasticConfig{
		Parts: ElasticParts(), Duration: 90 * time.Second, Ceiling: 64,
		IOWork: 50 * time.Millisecond, Low: 50, High: 400,
		CPUWork: 20 * time.Millisecond,
		Width:   20, DownWork: 50 * time.Millisecond,
		Refuse: 10 * time.Second, Recover: 20 * time.Second, Excluded: 5 * time.Second, Watch: 6 * time.Second,
		Resizes: 1000, Beats: 500,
	}
}

// elasticDurationMax is less than the time after which completed tasks leave the
// table in which they are counted.
const elasticDurationMax = 10 * time.Minute

func (c ElasticConfig) validate() error {
	for _, part := range c.Parts {
		if !slices.Contains(ElasticParts(), part) {
			return fmt.Errorf("--parts %s: the parts are %s", part, strings.Join(ElasticParts(), ", "))
		}
	}
	if c.Duration < 3*time.Second || c.Duration > elasticDurationMax {
		return fmt.Errorf("--duration %s is out of range 3s..%s", c.Duration, elasticDurationMax)
	}
	if c.Ceiling < 4 || c.Ceiling > slotsMax {
		return fmt.Errorf("--ceiling %d is out of range 4..%d", c.Ceiling, slotsMax)
	}
	if c.Cores < 0 || c.Cores > runtime.NumCPU() {
		return fmt.Errorf("--cores %d is out of range 0..%d", c.Cores, runtime.NumCPU())
	}
	if c.Resizes < 2 || c.Resizes > tasksMax || c.Beats < 1 || c.Beats > tasksMax {
		return fmt.Errorf("%d resizes and %d decisions are out of range 2..%d", c.Resizes, c.Beats, tasksMax)
	}
	return nil
}

func (r *Runner) elastic(ctx context.Context) error {
	r.config.Elastic = r.config.Elastic.complete()
	set := r.config.Elastic
	err := r.report.limits("elastic", []limit{
		{"parts", strings.Join(set.Parts, "+")},
		{"runs", fmt.Sprintf("%s, fixed settings %s, ceiling %d", set.Duration, set.sweep(), set.Ceiling)},
		{"io", fmt.Sprintf("tasks wait %s; %.4g, %.4g, %.4g a second for a third of a run each", set.IOWork, set.Low, set.High, set.Low)},
		{"cpu", fmt.Sprintf("tasks compute %s on an idle core; %d of %d cores (GOMAXPROCS of the app)", set.CPUWork, set.Cores, runtime.NumCPU())},
		{"downstream", fmt.Sprintf("%d at a time, %s each", set.Width, set.DownWork)},
		{"push-back", fmt.Sprintf("429 with Retry-After %d for %s", refusePause, set.Refuse)},
		{"resizes", strconv.Itoa(set.Resizes)},
	})
	if err != nil {
		return err
	}
	steps := map[string]func(context.Context) ([]Figure, error){
		partStep: r.ioStep, partCPU: r.cpuBound, partDownstream: r.downstream, partJoint: r.joint,
		partPushBack: r.pushBack, partResize: r.randomResizes, partController: r.controllerCost,
	}
	for _, part := range ElasticParts() {
		if !slices.Contains(set.Parts, part) {
			continue
		}
		figures, err := steps[part](ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
		if err := r.report.add(figures...); err != nil {
			return err
		}
	}
	return nil
}

// complete chooses what was left to be chosen.
func (c ElasticConfig) complete() ElasticConfig {
	if c.Cores == 0 {
		c.Cores = max(1, runtime.NumCPU()/2) // the other half is the sidecar's and Postgres's
	}
	if c.IOSweep == nil {
		c.IOSweep = distinct(c.Ceiling/2, c.Ceiling)
	}
	if c.CPUSweep == nil {
		c.CPUSweep = distinct(c.Cores, 2*c.Cores, 3*c.Cores, 4*c.Cores, 8*c.Cores, c.Ceiling)
	}
	if c.DownSweep == nil {
		c.DownSweep = distinct(c.Width/2, c.Width, c.Width*6/5, c.Width*8/5, c.Ceiling)
	}
	return c
}

// sweep is how long a fixed setting runs: it has nothing to find out.
func (c ElasticConfig) sweep() time.Duration { return c.Duration / 3 }
