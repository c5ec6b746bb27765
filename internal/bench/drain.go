package bench

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// DrainConfig is how a backlog is drained.
type DrainConfig struct {
	// Protocols between sidecar and app, each in all rounds: http, http-tcp, grpc, exec.
	// Other scenarios that drain use the first.
	Protocols []string
	Tasks     int    // in the backlog; a twentieth of them over exec
	Slots     int    // of the sidecar; River has 2000 workers
	Profile   string // directory for profiles of one round more over the first protocol; empty: none
}

// defaultDrain has as many slots as River has workers. With fewer, Postgres pays for
// statements instead of tasks (docs/performance.md).
func defaultDrain() DrainConfig {
	return DrainConfig{Protocols: protocols(), Tasks: 100000, Slots: 2000}
}

// The protocols that a drain is measured over.
const (
	protocolHTTP = "http"     // over a Unix socket, as a session is
	protocolTCP  = "http-tcp" // over TCP loopback
	protocolGRPC = "grpc"
	protocolExec = "exec"
)

func protocols() []string { return []string{protocolHTTP, protocolTCP, protocolGRPC, protocolExec} }

const (
	tasksMax      = 10_000_000
	slotsMax      = 5000
	drainTimeout  = time.Minute           // of a round, and for each task:
	drainPerTask  = 10 * time.Millisecond // a tenth of the rate that would be a scandal
	completedPoll = 5 * time.Millisecond
	execPoll      = 50 * time.Millisecond // nobody counts the starts of commands, so the database is asked throughout
	execShare     = 20                    // a process a task: as long as the others' drain with so much fewer tasks

	drainHTTPBound = 0.7
	drainGRPCBound = 1.4
	drainCPUBound  = 45 // microseconds of Postgres
)

func (c DrainConfig) validate() error {
	if err := validateProtocols(c.Protocols, protocols()); err != nil {
		return err
	}
	if c.Tasks < 1 || c.Tasks > tasksMax {
		return fmt.Errorf("--tasks %d is out of range 1..%d", c.Tasks, tasksMax)
	}
	if c.Slots < 1 || c.Slots > slotsMax {
		return fmt.Errorf("--slots %d is out of range 1..%d", c.Slots, slotsMax)
	}
	return nil
}

// validateProtocols refuses a list that is empty or has one twice or none of the
// allowed.
func validateProtocols(given, allowed []string) error {
	if len(given) == 0 {
		return fmt.Errorf("--protocol: none given; use %s", strings.Join(allowed, ", "))
	}
	for i, protocol := range given {
		if !slices.Contains(allowed, protocol) {
			return fmt.Errorf("--protocol %q: use %s", protocol, strings.Join(allowed, ", "))
		}
		if slices.Contains(given[:i], protocol) {
			return fmt.Errorf("--protocol %s: given twice", protocol)
		}
	}
	return nil
}

// drained is one round's measurement.
type drained struct {
	seconds float64
	tasks   float64
	pg      time.Duration // CPU of Postgres; 0: not measurable here
	client  time.Duration // CPU of the process that claims and settles
	app     time.Duration // CPU of the app, if it is another process
	others  time.Duration // CPU of what else ran on the machine meanwhile
}

func (d drained) rate() float64         { return d.tasks / d.seconds }
func (d drained) pgMicros() float64     { return micros(d.pg) / d.tasks }
func (d drained) clientMicros() float64 { return micros(d.client) / d.tasks }
func (d drained) appMicros() float64    { return micros(d.app) / d.tasks }

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func (r *Runner) drain(ctx context.Context) error {
	set := r.config.Drain
	err := r.report.limits("drain", []limit{
		{"tasks", strconv.Itoa(set.Tasks)},
		{"sidecar slots", strconv.Itoa(set.Slots)},
		{"sidecar pool", strconv.Itoa(poolMax)},
		{"apps", "other processes: over " + strings.Join(set.Protocols, ", over ")},
		{"http", "HTTP/1.1 keep-alive over a Unix socket, one request a task"},
		{"http-tcp", "the same over TCP loopback"},
		{"grpc", "a session over a Unix socket"},
		{"exec", "`true` for each task, of a backlog of " + strconv.Itoa(max(1, set.Tasks/execShare))},
		{"River workers", strconv.Itoa(riverMaxWorkers)},
		{"River fetch cooldown", riverFetchCooldown.String()},
		{"River pool", strconv.Itoa(poolMax)},
	})
	if err != nil {
		return err
	}
	var theirs []drained
	ours := map[string][]drained{}
	for i := range r.config.Rounds {
		river, err := r.drainRound(ctx, r.river(), nil)
		if err != nil {
			return fmt.Errorf("river: %w", err)
		}
		theirs = append(theirs, river)
		r.report.note("drain round %d of %d: river %s", i+1, r.config.Rounds, river)
		for _, protocol := range set.Protocols {
			sched, err := r.drainRound(ctx, r.schedOver(protocol), nil)
			if err != nil {
				return fmt.Errorf("sched over %s: %w", protocol, err)
			}
			ours[protocol] = append(ours[protocol], sched)
			r.report.note("drain round %d of %d: sched over %s %s; ratio %.3f", i+1, r.config.Rounds, protocol, sched, sched.rate()/river.rate())
		}
	}
	if set.Profile != "" {
		if err := r.profile(ctx, set.Profile); err != nil {
			return err
		}
	}
	for _, protocol := range set.Protocols {
		if err := r.report.add(drainFigures(protocol, ours[protocol], theirs)...); err != nil {
			return err
		}
	}
	return r.report.add(riverFigures(theirs)...)
}

// String shows a round in a line.
func (d drained) String() string {
	return fmt.Sprintf("%.0f/s (CPU a task: Postgres %.1f us, client %.1f us, app %.1f us; others took %.2f cores)",
		d.rate(), d.pgMicros(), d.clientMicros(), d.appMicros(), d.others.Seconds()/d.seconds)
}

// ratios compares the sides round by round: what slows a machine down for a while
// then slows both, where the ratio of two medians could take one side's good
// round and the other's bad one.
func ratios(ours, theirs []drained) []float64 {
	result := make([]float64, len(ours))
	for i := range ours {
		result[i] = ours[i].rate() / theirs[i].rate()
	}
	return result
}

// drainBounds are of the ratio to River and of Postgres's CPU time a task.
func drainBounds(protocol string) (ratio, cpu Bound) {
	switch protocol {
	case protocolHTTP, protocolTCP:
		return AtLeast(drainHTTPBound), AtMost(drainCPUBound)
	case protocolGRPC:
		return AtLeast(drainGRPCBound), AtMost(drainCPUBound)
	default:
		return Bound{}, Bound{}
	}
}

// Without /proc there is no CPU time, which is no figure rather than a zero.
func drainFigures(protocol string, ours, theirs []drained) []Figure {
	name, rounds := "drain."+strings.ReplaceAll(protocol, "-", "_"), len(ours)
	ratio, cpu := drainBounds(protocol)
	figures := []Figure{
		newFigure(name+".vs_river", median(ratios(ours, theirs)), "ratio", ratio, rounds),
		newFigure(name+".tasks_per_s", medianOf(ours, drained.rate), "1/s", Bound{}, rounds),
	}
	if ours[0].pg > 0 {
		figures = append(figures, newFigure(name+".pg_us_per_task", medianOf(ours, drained.pgMicros), "us", cpu, rounds))
	}
	if ours[0].client > 0 {
		figures = append(figures,
			newFigure(name+".sidecar_us_per_task", medianOf(ours, drained.clientMicros), "us", Bound{}, rounds),
			newFigure(name+".app_us_per_task", medianOf(ours, drained.appMicros), "us", Bound{}, rounds))
	}
	return figures
}

func riverFigures(theirs []drained) []Figure {
	const name = "drain.river"
	rounds := len(theirs)
	figures := []Figure{newFigure(name+".tasks_per_s", medianOf(theirs, drained.rate), "1/s", Bound{}, rounds)}
	if theirs[0].pg > 0 {
		figures = append(figures, newFigure(name+".pg_us_per_task", medianOf(theirs, drained.pgMicros), "us", Bound{}, rounds))
	}
	if theirs[0].client > 0 {
		figures = append(figures, newFigure(name+".client_us_per_task", medianOf(theirs, drained.clientMicros), "us", Bound{}, rounds))
	}
	return figures
}
