package main

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed sample.sql
var sampleSQL string

// activeSQL: is the sidecar with process id $1 an active worker?
const activeSQL = `select exists (select from sched.worker where pid = $1 and state = 'active')`

// leadsSQL: does the sidecar with process id $1 lead the fleet?
const leadsSQL = `
select exists (
    select from sched.river_leader l join sched.worker w on w.client_id = l.leader_id
    where w.pid = $1 and l.expires_at > now())`

// inFlightSQL: how many tasks does the sidecar with process id $1 run?
const inFlightSQL = `
select count(*) from sched.task
where status = 'running' and worker_id in (select id from sched.worker where pid = $1)`

// sample is one look at the fleet and the books.
type sample struct {
	Carried   int64 // orders
	Total     int64 // tasks, and by status:
	Available int64
	Running   int64
	Retryable int64
	Completed int64
	Failed    int64 // cancelled or discarded
	Rescued   int64 // attempts
	Alive     int64 // workers with a fresh heartbeat
}

func takeSample(ctx context.Context, pool *pgxpool.Pool, batch string) (sample, error) {
	rows, err := pool.Query(ctx, sampleSQL, batch)
	if err != nil {
		return sample{}, fmt.Errorf("look at the fleet: %w", err)
	}
	s, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[sample])
	if err != nil {
		return sample{}, fmt.Errorf("look at the fleet: %w", err)
	}
	return s, nil
}

// line is the progress as the demo shows it.
func (s sample) line(orders int, phase string) string {
	return fmt.Sprintf("%s %6s/%s carried · running %d · available %2d · retryable %2d · workers alive %d · %s",
		bar(s.Carried, int64(orders)), thousands(s.Carried), thousands(int64(orders)),
		s.Running, s.Available, s.Retryable, s.Alive, phase)
}

// ask runs a query for one value about a sidecar.
func ask[T any](ctx context.Context, pool *pgxpool.Pool, query string, pid int) (T, error) {
	var answer T
	if err := pool.QueryRow(ctx, query, pid).Scan(&answer); err != nil {
		return answer, fmt.Errorf("ask about the sidecar with pid %d: %w", pid, err)
	}
	return answer, nil
}
