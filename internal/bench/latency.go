package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"
)

// LatencyConfig is how tasks arrive while nothing else is going on.
type LatencyConfig struct {
	Protocols []string      // between sidecar and app, each in all rounds: http, grpc
	Rate      int           // tasks a second, one by one
	Duration  time.Duration // of a round
}

func defaultLatency() LatencyConfig {
	return LatencyConfig{Protocols: latencyProtocols(), Rate: 200, Duration: 10 * time.Second}
}

// latencyProtocols are those with an app that says when a task started.
func latencyProtocols() []string { return []string{protocolHTTP, protocolGRPC} }

const (
	rateMax        = 10000
	durationMax    = time.Hour
	latencyTimeout = time.Minute     // of a round beyond its duration
	latencyLeast   = 20              // tasks of a round
	warmUp         = 3 * time.Second // in which everything is cold, the queue new and not yet assigned, and nothing counts

	latencyP50Bound = 3 // ms
	latencyP99Bound = 10
)

func (c LatencyConfig) validate() error {
	if err := validateProtocols(c.Protocols, latencyProtocols()); err != nil {
		return err
	}
	if c.Rate < 1 || c.Rate > rateMax {
		return fmt.Errorf("--rate %d is out of range 1..%d", c.Rate, rateMax)
	}
	if c.Duration < time.Duration(latencyLeast)*time.Second/time.Duration(c.Rate) || c.Duration > durationMax {
		return fmt.Errorf("--duration %s at %d/s: it must make some tasks, and no more than %s", c.Duration, c.Rate, durationMax)
	}
	return nil
}

// latencies is one round's measurement, in milliseconds.
type latencies struct{ p50, p99 float64 }

// producer enqueues one task, committed when it returns.
type producer func(ctx context.Context, n int) (id int64, err error)

func (r *Runner) latency(ctx context.Context) error {
	set := r.config.Latency
	err := r.report.limits("latency", []limit{
		{"rate", strconv.Itoa(set.Rate) + "/s"},
		{"duration", set.Duration.String() + " a round"},
		{"sidecar", "as shipped"},
		{"apps", "other processes, behind Unix sockets"},
		{"sched's producer", "SQL, one sched.enqueue a transaction"},
		{"River's producer", "its Go client, one Insert a transaction"},
		{"River workers", strconv.Itoa(riverMaxWorkers)},
		{"River fetch cooldown", riverFetchCooldown.String()},
	})
	if err != nil {
		return err
	}
	var theirs []latencies
	ours := map[string][]latencies{}
	for i := range r.config.Rounds {
		river, err := r.riverLatency(ctx)
		if err != nil {
			return fmt.Errorf("river: %w", err)
		}
		theirs = append(theirs, river)
		r.report.note("latency round %d of %d: river %s", i+1, r.config.Rounds, river)
		for _, protocol := range set.Protocols {
			sched, err := r.schedLatency(ctx, protocol)
			if err != nil {
				return fmt.Errorf("sched over %s: %w", protocol, err)
			}
			ours[protocol] = append(ours[protocol], sched)
			r.report.note("latency round %d of %d: sched over %s %s", i+1, r.config.Rounds, protocol, sched)
		}
	}
	figures := func(name string, of []latencies, p50, p99 Bound) error {
		return r.report.add(
			newFigure(name+".p50_ms", medianOf(of, func(l latencies) float64 { return l.p50 }), "ms", p50, r.config.Rounds),
			newFigure(name+".p99_ms", medianOf(of, func(l latencies) float64 { return l.p99 }), "ms", p99, r.config.Rounds))
	}
	for _, protocol := range set.Protocols {
		name := map[string]string{protocolHTTP: "latency.paced", protocolGRPC: "latency.grpc"}[protocol]
		if err := figures(name, ours[protocol], AtMost(latencyP50Bound), AtMost(latencyP99Bound)); err != nil {
			return err
		}
	}
	return figures("latency.river", theirs, Bound{}, Bound{})
}

func (l latencies) String() string { return fmt.Sprintf("p50 %.2f ms, p99 %.2f ms", l.p50, l.p99) }

func (r *Runner) schedLatency(ctx context.Context, protocol string) (result latencies, err error) {
	db, err := r.server.createDatabase(ctx, "sched")
	if err != nil {
		return result, err
	}
	defer func() { err = closing(err, db.drop) }()
	if err := migrateSched(ctx, db); err != nil {
		return result, err
	}
	var set sidecarOptions
	app, err := r.startAppOver(ctx, protocol, &set, "-starts")
	if err != nil {
		return result, err
	}
	defer func() { err = closing(err, app.stop) }()
	sidecar, err := r.startSidecar(ctx, db, app, set)
	if err != nil {
		return result, err
	}
	defer func() { err = closing(err, sidecar.stop) }()
	return r.pace(ctx, app, func(ctx context.Context, n int) (id int64, err error) {
		err = db.pool.QueryRow(ctx, "select sched.enqueue($1, jsonb_build_object('n', $2::int))", noopKind, n).Scan(&id)
		return id, err
	})
}

func (r *Runner) riverLatency(ctx context.Context) (result latencies, err error) {
	db, err := r.server.createDatabase(ctx, "river")
	if err != nil {
		return result, err
	}
	defer func() { err = closing(err, db.drop) }()
	if err := migrateRiver(ctx, db.pool); err != nil {
		return result, err
	}
	worker, err := r.startRiverClient(ctx, db, "-starts")
	if err != nil {
		return result, err
	}
	defer func() { err = closing(err, worker.stop) }()
	inserter, err := newRiver(ctx, db.dsn, nil)
	if err != nil {
		return result, err
	}
	defer inserter.pool.Close()
	return r.pace(ctx, worker, func(ctx context.Context, n int) (int64, error) {
		inserted, err := inserter.Insert(ctx, noopArgs{N: n}, nil)
		if err != nil {
			return 0, err
		}
		return inserted.Job.ID, nil
	})
}

// pace enqueues at the configured rate and matches commits with starts. The first
// tasks, which find everything cold, don't count.
func (r *Runner) pace(ctx context.Context, worker *child, produce producer) (latencies, error) {
	set := r.config.Latency
	ctx, cancel := context.WithTimeoutCause(ctx, set.Duration+warmUp+latencyTimeout, fmt.Errorf("the tasks didn't start in time"))
	defer cancel()
	tasks, before := int(set.Duration.Seconds()*float64(set.Rate)), int(warmUp.Seconds()*float64(set.Rate))
	committed := make(map[int64]int64, tasks)
	ticker := time.NewTicker(time.Second / time.Duration(set.Rate))
	defer ticker.Stop()
	for n := range before + tasks {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return latencies{}, context.Cause(ctx)
		}
		id, err := produce(ctx, n)
		if err != nil {
			return latencies{}, fmt.Errorf("enqueue: %w", err)
		}
		if n >= before {
			committed[id] = time.Now().UnixNano()
		}
	}
	if err := awaitStarts(ctx, worker, before+tasks); err != nil {
		return latencies{}, err
	}
	var starts []taskStart
	err := worker.get(ctx, pathStarts, func(body io.Reader) error { return json.NewDecoder(body).Decode(&starts) })
	if err != nil {
		return latencies{}, err
	}
	return match(committed, starts)
}

// match turns commits and starts into latencies. A handler that began before its
// producer knew of its commit counts as begun at once. The first start of a task
// is the one that counts.
func match(committed map[int64]int64, starts []taskStart) (latencies, error) {
	waits := make([]float64, 0, len(committed))
	seen := make(map[int64]bool, len(committed))
	for _, start := range starts {
		at, known := committed[start.TaskID]
		if !known || seen[start.TaskID] {
			continue
		}
		seen[start.TaskID] = true
		waits = append(waits, float64(max(0, start.Nanos-at))/float64(time.Millisecond))
	}
	if len(waits) != len(committed) {
		return latencies{}, fmt.Errorf("%d of %d tasks started", len(waits), len(committed))
	}
	const half, most = 0.5, 0.99
	return latencies{p50: percentile(waits, half), p99: percentile(waits, most)}, nil
}
