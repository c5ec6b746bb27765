package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// maxBody bounds the args of a task that this app reads.
const maxBody = 64 << 10

// parts is in how many pieces a chunk is written. A process that dies on the
// way leaves an open transaction with some of them in it.
const parts = 10

const auditSQL = `insert into books.audit (task_id, attempt, app_pid, note) values ($1, $2, $3, $4)`

// chunkSQL reads the orders of a task. It looks at no status: a second attempt
// would carry them all again, if sched.complete let it.
const chunkSQL = `
select id, total_cents, paid_cents from books.orders
where batch = $1 and id between $2 and $3 order by id`

const insertSQL = `
insert into books.carried (order_id, month, amount_cents, task_id, attempt)
select id, $1, cents, $2, $3 from unnest($4::bigint[], $5::bigint[]) as carry(id, cents)`

const statusSQL = `
update books.orders set status = 'CARRIED' where batch = $1 and id between $2 and $3`

const completeSQL = `select sched.complete($1, $2, $3)`

// task is what the sidecar sends: the task's identity in headers, its args in the body.
type task struct {
	id      int64
	attempt int
	lease   string
	args    args
}

type args struct {
	Month  string `json:"month"`
	Batch  int64  `json:"batch"`
	FromID int64  `json:"from_id"`
	ToID   int64  `json:"to_id"`
}

// carried is the output of a task.
type carried struct {
	Orders int   `json:"orders"`
	Cents  int64 `json:"cents"`
}

// serveCarryover executes one attempt of a task.
func (s *shop) serveCarryover(w http.ResponseWriter, r *http.Request) {
	t, err := readTask(w, r)
	if err != nil {
		s.answer(w, r, nil, err)
		return
	}
	// Not in the transaction: the audit keeps what a rollback undoes.
	note := fmt.Sprintf("attempt %d of task %d started on app pid %d", t.attempt, t.id, s.pid)
	if _, err := s.pool.Exec(r.Context(), auditSQL, t.id, t.attempt, s.pid, note); err != nil {
		s.answer(w, r, nil, fmt.Errorf("audit: %w", err))
		return
	}
	result, err := s.carry(r.Context(), t)
	s.answer(w, r, result, err)
}

// readTask reads the task of a request. The whole body is read: only then does
// net/http notice a sidecar that goes away, and ends the request's context.
func readTask(w http.ResponseWriter, r *http.Request) (task, error) {
	t := task{lease: r.Header.Get("Sched-Lease")}
	var err error
	if t.id, err = strconv.ParseInt(r.Header.Get("Sched-Task-Id"), 10, 64); err != nil {
		return t, badRequest("header Sched-Task-Id: %v; this path is for a sidecar", err)
	}
	if t.attempt, err = strconv.Atoi(r.Header.Get("Sched-Attempt")); err != nil {
		return t, badRequest("header Sched-Attempt: %v; this path is for a sidecar", err)
	}
	if t.lease == "" {
		return t, badRequest("header Sched-Lease is missing; this path is for a sidecar")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return t, badRequest("args: %v", err)
	}
	if err := json.Unmarshal(body, &t.args); err != nil {
		return t, badRequest("args: %v", err)
	}
	return t, nil
}

// carry does the work of a task and completes it, both in one transaction. It
// has no other guard against a second run: if the lease is lost, or the task
// is complete already, sched.complete refuses and everything rolls back.
func (s *shop) carry(ctx context.Context, t task) (carried, error) {
	var result carried
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		ids, cents, err := balances(ctx, tx, t.args)
		if err != nil {
			return err
		}
		for i := range parts {
			from, to := i*len(ids)/parts, (i+1)*len(ids)/parts
			if _, err := tx.Exec(ctx, insertSQL, t.args.Month, t.id, t.attempt, ids[from:to], cents[from:to]); err != nil {
				return fmt.Errorf("carry: %w", err)
			}
			if err := rest(ctx, s.pace/parts); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, statusSQL, t.args.Batch, t.args.FromID, t.args.ToID); err != nil {
			return fmt.Errorf("mark carried: %w", err)
		}
		result = carried{Orders: len(ids), Cents: sum(cents)}
		if _, err := tx.Exec(ctx, completeSQL, t.id, t.lease, result); err != nil {
			return fmt.Errorf("complete: %w", err)
		}
		return nil
	})
	return result, err
}

// balances computes what to carry for each order of a chunk.
func balances(ctx context.Context, tx pgx.Tx, a args) (ids, cents []int64, err error) {
	rows, err := tx.Query(ctx, chunkSQL, a.Batch, a.FromID, a.ToID)
	if err != nil {
		return nil, nil, fmt.Errorf("read orders: %w", err)
	}
	var id, total, paid int64
	_, err = pgx.ForEachRow(rows, []any{&id, &total, &paid}, func() error {
		ids, cents = append(ids, id), append(cents, balance(total, paid))
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read orders: %w", err)
	}
	if len(ids) == 0 {
		return nil, nil, &requestError{
			http.StatusUnprocessableEntity,
			fmt.Sprintf("batch %d has no orders from %d to %d", a.Batch, a.FromID, a.ToID),
		}
	}
	return ids, cents, nil
}

// balance is what an order carries into the next month, in cents: the open
// amount with half a percent of interest, rounded half up, or a credit as it is.
func balance(total, paid int64) int64 {
	open := total - paid
	if open <= 0 {
		return open
	}
	return open + (open*5+500)/1000
}

func sum(cents []int64) int64 {
	var total int64
	for _, c := range cents {
		total += c
	}
	return total
}

// rest is the slow part of a task, which a real shop wouldn't have to simulate.
func rest(ctx context.Context, pause time.Duration) error {
	if pause <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the sidecar went away: %w", ctx.Err())
	}
}
