package console

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/sched-sidecar/sched/sql/dbq"
)

const (
	// latestMax is how many decisions the overview shows.
	latestMax = 8
	// worstMax is how many queues the overview looks at: those that need it most, by what the leader found.
	worstMax = 50
)

type overviewBody struct {
	Now       time.Time
	Figures   dbq.ConsoleSampleRow
	Workers   []worker
	Queues    []queue
	Decisions []dbq.ConsoleDecisionsRow
	Oldest    *float64 // of these queues
}

// readOverview reads what the overview shows, within one transaction.
func readOverview(ctx context.Context, q *dbq.Queries, now time.Time) (overviewBody, error) {
	body := overviewBody{Now: now}
	var err error
	if body.Figures, err = q.ConsoleSample(ctx, dbq.ConsoleSampleParams{Since: now.Add(-2 * pollEvery), MaxCount: endedMax, MaxStarts: startsMax}); err != nil {
		return body, err
	}
	rows, err := q.QueueList(ctx, dbq.QueueListParams{WorstFirst: true, Max: worstMax, MaxCount: countMax})
	if err != nil {
		return body, err
	}
	if body.Queues, err = decode[queue](rows); err != nil {
		return body, err
	}
	slices.SortStableFunc(body.Queues, func(a, b queue) int { // what needs a look comes first
		return cmp.Or(cmp.Compare(b.worry(), a.worry()), cmp.Compare(b.Available, a.Available), cmp.Compare(b.Running, a.Running))
	})
	for _, each := range body.Queues {
		if each.OldestSeconds != nil && (body.Oldest == nil || *each.OldestSeconds > *body.Oldest) {
			body.Oldest = each.OldestSeconds
		}
	}
	workers, err := readWorkers(ctx, q, now, false)
	if err != nil {
		return body, err
	}
	body.Workers = workers.Workers
	body.Decisions, _, err = readDecisions(ctx, q, newest(), recordFilter{}, latestMax)
	return body, err
}

type workersBody struct {
	Now     time.Time
	Workers []worker
	Ended   bool // those that ended are listed too
	Max     int
}

// readWorkers reads workers and how many queues each serves.
func readWorkers(ctx context.Context, q *dbq.Queries, now time.Time, ended bool) (workersBody, error) {
	body := workersBody{Now: now, Ended: ended, Max: rowsMax}
	rows, err := q.WorkerList(ctx, dbq.WorkerListParams{Ended: ended, Max: rowsMax})
	if err != nil {
		return body, err
	}
	if body.Workers, err = decode[worker](rows); err != nil || len(rows) == 0 {
		return body, err
	}
	ids := make([]string, len(body.Workers))
	for i, w := range body.Workers {
		ids[i] = w.ID
	}
	counts, err := q.ConsoleAssignmentCounts(ctx, ids)
	if err != nil {
		return body, err
	}
	by := make(map[string]dbq.ConsoleAssignmentCountsRow, len(counts))
	for _, count := range counts {
		by[count.WorkerID] = count
	}
	for i := range body.Workers {
		w := &body.Workers[i]
		w.Assigned, w.Heaviest = int(by[w.ID].Queues), by[w.ID].Heaviest
	}
	return body, nil
}

type queuesBody struct {
	Now    time.Time
	Queues []queue
	Max    int
}

func readQueues(ctx context.Context, q *dbq.Queries, now time.Time) (queuesBody, error) {
	body := queuesBody{Now: now, Max: rowsMax}
	rows, err := q.QueueList(ctx, dbq.QueueListParams{Max: rowsMax, MaxCount: countMax})
	if err != nil {
		return body, err
	}
	body.Queues, err = decode[queue](rows)
	return body, err
}
