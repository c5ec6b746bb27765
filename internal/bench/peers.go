package bench

import (
	"context"
	"strconv"
)

// PeersConfig is how other job queues on Postgres are measured.
type PeersConfig struct {
	Optional bool // where they can't be installed they are left out, with a note
}

// What the peers are given: of the numbers that were tried, those with the least
// CPU time a task.
const (
	graphileConcurrent = 200  // jobs at once
	graphileLocalQueue = 5000 // jobs that are fetched at once
	pgBossWorkers      = 2
	pgBossBatch        = 2000
)

// peers drains by other job queues, with River and sched in the same rounds.
func (r *Runner) peers(ctx context.Context) error {
	programs, err := installPeers(ctx, r.report.note)
	if err != nil && r.config.Peers.Optional && ctx.Err() == nil {
		r.report.note("the figures peers.* are left out: %v", err)
		return nil
	}
	if err != nil {
		return err
	}
	err = r.report.limits("peers", []limit{
		{"tasks", strconv.Itoa(r.config.Drain.Tasks)},
		{"Node", programs.nodeVersion},
		{"graphile-worker", programs.versions["graphile-worker"]},
		{"its concurrentJobs", strconv.Itoa(graphileConcurrent)},
		{"localQueue.size", strconv.Itoa(graphileLocalQueue)},
		{"completeJobBatchDelay", "0"},
		{"pg-boss", programs.versions["pg-boss"]},
		{"its workers", strconv.Itoa(pgBossWorkers)},
		{"batchSize", strconv.Itoa(pgBossBatch)},
		{"pool of each", strconv.Itoa(poolMax)},
		{"sidecar slots", strconv.Itoa(r.config.Drain.Slots)},
		{"River workers", strconv.Itoa(riverMaxWorkers)},
	})
	if err != nil {
		return err
	}
	contenders := []contender{r.river(), r.schedOver(protocolGRPC), programs.graphileWorker(), programs.pgBoss()}
	rounds, err := r.drainRounds(ctx, contenders...)
	if err != nil {
		return err
	}
	for k, c := range contenders {
		if err := r.report.add(peerFigures(c.name, rounds[k], rounds[0])...); err != nil {
			return err
		}
	}
	return nil
}

func peerFigures(name string, rounds, river []drained) []Figure {
	name = "peers." + name
	var figures []Figure
	if name != "peers.river" {
		figures = append(figures, newFigure(name+".vs_river", median(ratios(rounds, river)), "ratio", Bound{}, len(rounds)))
	}
	figures = append(figures, newFigure(name+".tasks_per_s", medianOf(rounds, drained.rate), "1/s", Bound{}, len(rounds)))
	if rounds[0].pg > 0 {
		figures = append(figures, newFigure(name+".pg_us_per_task", medianOf(rounds, drained.pgMicros), "us", Bound{}, len(rounds)))
	}
	return figures
}

// graphileWorker deletes what has ended, so that its process tells when the first
// task was claimed, by the time that the row had.
func (p *peerPrograms) graphileWorker() contender {
	env := peerEnv(graphileConcurrent, graphileLocalQueue)
	return contender{
		name: "graphile_worker", table: "graphile_worker._private_jobs",
		open: "true", state: "case when locked_at is null then 'waiting' else 'locked' end",
		prepare: p.fill("graphile-worker", env), start: p.work("graphile-worker", env),
		ledger: func(ctx context.Context, _ *database, crew *crew) (ledger, error) {
			return askClaims(ctx, crew.counter)
		},
	}
}

func (p *peerPrograms) pgBoss() contender {
	env := peerEnv(pgBossWorkers, pgBossBatch)
	return contender{
		name: "pg_boss", table: "pgboss.job", open: "name = '" + noopKind + "' and state <> 'completed'",
		prepare: p.fill("pg-boss", env), start: p.work("pg-boss", env),
		ledger: func(ctx context.Context, db *database, _ *crew) (l ledger, err error) {
			err = db.pool.QueryRow(ctx, `select count(*) filter (where state = 'completed'), count(*) filter (where retry_count > 0),
				coalesce(min(started_on), 'epoch') from pgboss.job where name = $1`, noopKind).Scan(&l.completed, &l.again, &l.first)
			return l, err
		},
	}
}

// peerEnv is what a peer's program reads besides where its database is.
func peerEnv(concurrent, batch int) []string {
	return []string{
		"BENCH_POOL=" + strconv.Itoa(poolMax),
		"BENCH_CONCURRENT=" + strconv.Itoa(concurrent),
		"BENCH_BATCH=" + strconv.Itoa(batch),
	}
}
