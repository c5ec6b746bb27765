package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
)

// chunk is how many orders one task carries.
const chunk = 500

// markSQL makes a batch of the next open orders behind order $1. Orders that
// another month-end is taking at this moment are left to it.
const markSQL = `
with batch as materialized (
    select nextval('books.batch') as number
), next as (
    select id from books.orders where status = 'OPEN' and id > $1 order by id limit $2 for update skip locked
), marked as (
    update books.orders o set status = 'PROCESSING', batch = batch.number
    from next, batch where o.id = next.id returning o.id, o.batch
)
select coalesce(max(batch), 0), coalesce(min(id), 0), coalesce(max(id), 0), count(*) from marked`

// enqueueSQL is all that it takes to hand work to sched.
const enqueueSQL = `
select sched.enqueue('carryover',
    jsonb_build_object('month', $1::text, 'batch', $2::bigint, 'from_id', $3::bigint, 'to_id', $4::bigint),
    queue => 'month-end',
    batch => 'month-end ' || $1)`

// closed is the answer to a closed month.
type closed struct {
	Month   string `json:"month"`
	Batches int    `json:"batches"`
	Orders  int    `json:"orders"`
}

// serveMonthEnd closes the month of the query: POST /month-end?month=2026-11.
func (s *shop) serveMonthEnd(w http.ResponseWriter, r *http.Request) {
	month := r.URL.Query().Get("month")
	if _, err := time.Parse("2006-01", month); err != nil {
		s.answer(w, r, nil, badRequest("month %q: give it as ?month=2026-11", month))
		return
	}
	result, err := s.monthEnd(r.Context(), month)
	s.answer(w, r, result, err)
}

// monthEnd marks all open orders, a batch and a transaction at a time. Stopped
// in between, it is simply called again: it goes on with what is still open.
func (s *shop) monthEnd(ctx context.Context, month string) (closed, error) {
	result := closed{Month: month}
	var last int64
	for {
		var orders int
		var err error
		orders, last, err = s.enqueueBatch(ctx, month, last)
		if err != nil || orders == 0 {
			return result, err
		}
		result.Batches++
		result.Orders += orders
	}
}

// enqueueBatch is one batch's transaction: it marks the orders and enqueues
// their task, so neither can be there without the other. It returns how many
// orders it took behind order after, and the last of them.
func (s *shop) enqueueBatch(ctx context.Context, month string, after int64) (orders int, last int64, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var batch, first int64
		if err := tx.QueryRow(ctx, markSQL, after, chunk).Scan(&batch, &first, &last, &orders); err != nil {
			return fmt.Errorf("mark the orders behind %d: %w", after, err)
		}
		if orders == 0 {
			return nil
		}
		if _, err := tx.Exec(ctx, enqueueSQL, month, batch, first, last); err != nil {
			return fmt.Errorf("enqueue batch %d: %w", batch, err)
		}
		return nil
	})
	if err != nil {
		return 0, after, err
	}
	return orders, last, nil
}
