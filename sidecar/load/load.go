package load

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"
)

const (
	sampleInterval = time.Second
	// freshFor is how old a sample may be that is acted on, reportFor a report of
	// the app itself.
	freshFor  = 5 * time.Second
	reportFor = 15 * time.Second
	// surveyEvery is how often processes and limits are looked for anew.
	surveyEvery = 5 * time.Second
)

// Scope says what a sample is about.
type Scope string

// The scopes, in the order in which they are tried.
const (
	App    Scope = "app"    // the app's processes
	Cgroup Scope = "cgroup" // everything in the sidecar's cgroup
	Host   Scope = "host"   // everything on the machine
)

// Sample is what was used at a time of what might be used.
type Sample struct {
	CPU float64 // 0 to 1, over the time since the sample before
	Mem float64 // 0 to 1
	At  time.Time
	Of  Scope
}

// Config is what a sampler needs. All of it is optional.
type Config struct {
	// PID returns the process id of the app; 0: it isn't known now.
	PID func() int
	// Root is the directory that holds proc and sys.
	Root string
	Now  func() time.Time
}

// Sampler measures once a second while it runs. Safe for concurrent use.
type Sampler struct {
	pid   func() int
	files files
	now   func() time.Time

	// Of the goroutine that samples alone.
	before   reading
	survey   survey
	surveyed time.Time

	mu         sync.Mutex
	last       Sample
	report     float64
	reportedAt time.Time
}

// NewSampler returns a sampler that knows nothing until [Sampler.Run].
func NewSampler(config Config) *Sampler {
	s := &Sampler{pid: config.PID, files: files(config.Root), now: config.Now}
	if s.pid == nil {
		s.pid = func() int { return 0 }
	}
	if s.now == nil {
		s.now = time.Now
	}
	return s
}

// Run samples each second until ctx ends.
func (s *Sampler) Run(ctx context.Context) error {
	ticker := time.NewTicker(sampleInterval)
	defer ticker.Stop()
	for {
		_ = s.Sample() // the last sample grows old, which is what counts
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// errFirst: the use of cpu is the difference between two readings.
var errFirst = errors.New("there is nothing to compare the first reading with")

// Sample takes one sample, from one goroutine at a time. The first reading, and
// the first after the app's process has changed, gives none.
func (s *Sampler) Sample() error {
	now := s.now()
	pid := s.pid()
	if now.Sub(s.surveyed) >= surveyEvery || s.survey.pid != pid {
		survey, err := s.files.survey(pid)
		if err != nil {
			return err
		}
		s.survey, s.surveyed = survey, now
	}
	current, err := s.files.read(s.survey)
	if err != nil {
		s.surveyed = time.Time{} // the app may have ended
		return err
	}
	current.at = now
	before := s.before
	s.before = current
	if before.what != current.what || !now.After(before.at) {
		return errFirst
	}
	sample := Sample{
		CPU: share(current.cpuSince(before), current.cpus*now.Sub(before.at).Seconds()),
		Mem: share(current.memory, current.memoryLimit),
		At:  now, Of: current.what.scope,
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = sample
	return nil
}

func share(used, of float64) float64 {
	if of <= 0 {
		return 0
	}
	return min(max(used/of, 0), 1)
}

// Latest returns the newest sample, and whether it is fresh enough to act on.
func (s *Sampler) Latest() (sample Sample, fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, s.fresh()
}

func (s *Sampler) fresh() bool {
	return !s.last.At.IsZero() && s.now().Sub(s.last.At) <= freshFor
}

// Report takes the app's own word for its load, in percent, which counts more than
// what is measured, for 15 seconds. Values out of 0 to 100 are brought into it.
func (s *Sampler) Report(percent float64) {
	if math.IsNaN(percent) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report, s.reportedAt = min(max(percent, 0), 100), s.now()
}

// Percent returns the app's load, 0 to 100, and whether it is known: the app's own
// report if there is one, or the higher one of its cpu and memory.
func (s *Sampler) Percent() (percent float64, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.reportedAt.IsZero() && s.now().Sub(s.reportedAt) <= reportFor {
		return s.report, true
	}
	if s.last.Of != App || !s.fresh() {
		return 0, false
	}
	return 100 * max(s.last.CPU, s.last.Mem), true
}

// Load returns what a worker's row says of the app: cpu and memory, 0 to 1, and its
// load in percent; 0 for what isn't known.
func (s *Sampler) Load() (cpu, mem, percent float64) {
	percent, _ = s.Percent()
	if sample, fresh := s.Latest(); fresh {
		cpu, mem = sample.CPU, sample.Mem
	}
	return cpu, mem, percent
}
