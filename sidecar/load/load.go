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
	freshFor  = 3 * time.Second
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

// measured is what was used at a time of what might be used.
type measured struct {
	cpu float64 // 0 to 1, over the time since the one before
	mem float64 // 0 to 1
	// cores is what cpu is a part of.
	cores float64
	at    time.Time
	of    Scope
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
	last       measured
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
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = measured{
		cpu:   share(current.cpuSince(before), current.cpus*now.Sub(before.at).Seconds()),
		mem:   share(current.memory, current.memoryLimit),
		cores: current.cpus, at: now, of: current.what.scope,
	}
	return nil
}

func share(used, of float64) float64 {
	if of <= 0 {
		return 0
	}
	return min(max(used/of, 0), 1)
}

// Usage is what is known at a time, and where it is from.
type Usage struct {
	// CPU and Mem are what Of uses of what it may use, 0 to 1; 0 where Of is empty.
	CPU, Mem float64
	Cores    float64 // that CPU is a part of
	Of       Scope   // empty: there is no fresh sample
	// Report is the app's own word for its load, 0 to 100, if it is Reported.
	Report   float64
	Reported bool
}

// Usage returns what is known now.
func (s *Sampler) Usage() Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	var u Usage
	if !s.last.at.IsZero() && now.Sub(s.last.at) <= freshFor {
		u.CPU, u.Mem, u.Cores, u.Of = s.last.cpu, s.last.mem, s.last.cores, s.last.of
	}
	if !s.reportedAt.IsZero() && now.Sub(s.reportedAt) <= reportFor {
		u.Report, u.Reported = s.report, true
	}
	return u
}

// App returns what of it is the app's own, and whether anything is known of that. A
// report takes the place of the cpu, of no number of cores: it is the app's word for how
// busy it is. What is measured of a cgroup or a machine is nobody's to act on.
func (u Usage) App() (app Usage, known bool) {
	if u.Of == App {
		app, known = u, true
	}
	if u.Reported {
		app.CPU, app.Cores, known = u.Report/100, 0, true
	}
	return app, known
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
