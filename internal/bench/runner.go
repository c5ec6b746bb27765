package bench

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
)

// Config says what to measure with, for how long, and where.
type Config struct {
	DSN    string // of a server where databases may be created; empty: start one
	Logger *slog.Logger

	// Sidecar is the command of a sidecar, Worker that of [RunWorker] without
	// its arguments.
	Sidecar, Worker []string

	Rounds   int
	Drain    DrainConfig
	Latency  LatencyConfig
	Governor GovernorConfig
	Idle     IdleConfig
	Enqueue  EnqueueConfig
	Routing  RoutingConfig
	Timers   TimersConfig
	Backlog  BacklogConfig
	Elastic  ElasticConfig
	See      SeeConfig
	Audit    AuditConfig
	Peers    PeersConfig
}

// DefaultConfig is what docs/performance.md was measured with.
func DefaultConfig() Config {
	return Config{
		Logger: discardLogger(),
		Rounds: 3,
		Drain:  defaultDrain(), Latency: defaultLatency(), Governor: defaultGovernor(), Idle: defaultIdle(),
		Enqueue: defaultEnqueue(),
		Routing: defaultRouting(),
		Timers:  defaultTimers(), Backlog: defaultBacklog(), Elastic: defaultElastic(), See: defaultSee(), Audit: defaultAudit(),
	}
}

// Validate names what can't be measured with.
func (c Config) Validate() error {
	const roundsMax = 100
	if c.Rounds < 1 || c.Rounds > roundsMax {
		return fmt.Errorf("%d rounds are out of range 1..%d", c.Rounds, roundsMax)
	}
	for _, err := range []error{
		c.Drain.validate(), c.Latency.validate(), c.Governor.validate(), c.Idle.validate(), c.Enqueue.validate(), c.Routing.validate(),
		c.Timers.validate(), c.Backlog.validate(), c.Elastic.validate(), c.See.validate(), c.Audit.validate(),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

// Scenario names a group of figures that are measured together.
type Scenario string

// The scenarios, in the order in which [Scenarios] lists them.
const (
	Idle     Scenario = "idle"
	Drain    Scenario = "drain"
	Latency  Scenario = "latency"
	Governor Scenario = "governor"
	Enqueue  Scenario = "enqueue"
	Routing  Scenario = "routing"
	Timers   Scenario = "timers"
	Backlog  Scenario = "backlog"
	Elastic  Scenario = "elastic"
	See      Scenario = "see"
	Audit    Scenario = "audit"
	Peers    Scenario = "peers"
)

// Scenarios lists all of them.
func Scenarios() []Scenario {
	return []Scenario{Idle, Drain, Latency, Governor, Enqueue, Routing, Timers, Backlog, Elastic, See, Audit, Peers}
}

// Runner measures on one server.
type Runner struct {
	config Config
	report *Report
	server *server
}

// Run measures the scenarios one after the other and gives the figures to report,
// which the caller closes.
func Run(ctx context.Context, config Config, report *Report, scenarios ...Scenario) (err error) {
	if err := config.Validate(); err != nil {
		return err
	}
	r := &Runner{config: config, report: report}
	if r.server, err = openServer(ctx, config.DSN, config.Logger); err != nil {
		return err
	}
	defer func() { err = closing(err, r.server.close) }()
	if err := r.machine(ctx); err != nil {
		return err
	}
	for _, scenario := range scenarios {
		if err := r.scenario(ctx, scenario); err != nil {
			return fmt.Errorf("bench %s: %w", scenario, err)
		}
	}
	return nil
}

func (r *Runner) scenario(ctx context.Context, scenario Scenario) error {
	switch scenario {
	case Idle:
		return r.idle(ctx)
	case Drain:
		return r.drain(ctx)
	case Latency:
		return r.latency(ctx)
	case Governor:
		return r.governor(ctx)
	case Enqueue:
		return r.enqueue(ctx)
	case Routing:
		return r.routing(ctx)
	case Timers:
		return r.timers(ctx)
	case Backlog:
		return r.backlog(ctx)
	case Elastic:
		return r.elastic(ctx)
	case See:
		return r.see(ctx)
	case Audit:
		return r.audit(ctx)
	case Peers:
		return r.peers(ctx)
	}
	return fmt.Errorf("no such scenario")
}

// machine prints what all scenarios have in common.
func (r *Runner) machine(ctx context.Context) error {
	settings, err := r.server.settings(ctx)
	if err != nil {
		return err
	}
	where := "embedded"
	if r.server.embedded == nil {
		where = "given by --dsn"
	}
	return r.report.limits(machineLimits, append([]limit{
		{"cores", strconv.Itoa(runtime.NumCPU())},
		{"load average", loadAverage()},
		{"system", runtime.GOOS + "/" + runtime.GOARCH},
		{"Go", runtime.Version()},
		{"server", where},
	}, settings...))
}

// closing runs a step that undoes another and joins its error to err.
func closing(err error, undo func() error) error {
	undone := undo()
	switch {
	case undone == nil:
		return err
	case err == nil:
		return undone
	}
	return fmt.Errorf("%w; after that: %w", err, undone)
}
