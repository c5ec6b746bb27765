package books

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed schema.sql
var schemaSQL string

//go:embed seed.sql
var seedSQL string

//go:embed check.sql
var checkSQL string

// Create makes the business tables and books the given number of open orders.
func Create(ctx context.Context, pool *pgxpool.Pool, orders int) error {
	if _, err := pool.Exec(ctx, schemaSQL); err != nil {
		return fmt.Errorf("create the books: %w", err)
	}
	if _, err := pool.Exec(ctx, seedSQL, orders); err != nil {
		return fmt.Errorf("book %d orders: %w", orders, err)
	}
	if _, err := pool.Exec(ctx, "analyze books.orders"); err != nil {
		return fmt.Errorf("analyze the orders: %w", err)
	}
	return nil
}

// Report is what an audit of the books found.
type Report struct {
	Orders int64 // orders in the books
	Once   int64 // carried exactly once, with the right amount and status
	Lost   int64 // never carried
	Twice  int64 // carried more than once
	Wrong  int64 // carried once, but with another amount or status

	Strays   int64 // carried orders that don't exist
	Unproven int64 // carry rows that no completed attempt of a task accounts for

	DueCents     int64 // what the orders add up to
	CarriedCents int64 // what was carried

	Tasks     int64 // tasks of the month-end
	Completed int64 // of these, completed
	Rescued   int64 // attempts whose worker died holding them
	Retried   int64 // attempts that failed and were followed by another
	Started   int64 // attempts that the apps say they started
}

// Check audits the books. It needs the schema sched beside them.
func Check(ctx context.Context, pool *pgxpool.Pool) (Report, error) {
	// All rows are new; without statistics the check would be planned for none.
	if _, err := pool.Exec(ctx, "analyze books.orders, books.carried"); err != nil {
		return Report{}, fmt.Errorf("analyze the books: %w", err)
	}
	rows, err := pool.Query(ctx, checkSQL)
	if err != nil {
		return Report{}, fmt.Errorf("check the books: %w", err)
	}
	report, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Report])
	if err != nil {
		return Report{}, fmt.Errorf("check the books: %w", err)
	}
	return report, nil
}

// Problems says, one finding each, why the books aren't in order. None means
// that each order was carried exactly once, to the cent.
func (r Report) Problems() []string {
	var found []string
	note := func(bad bool, format string, args ...any) {
		if bad {
			found = append(found, fmt.Sprintf(format, args...))
		}
	}
	note(r.Orders == 0, "there are no orders")
	note(r.Lost > 0, "%d orders were never carried", r.Lost)
	note(r.Twice > 0, "%d orders were carried more than once", r.Twice)
	note(r.Wrong > 0, "%d orders were carried with a wrong amount or status", r.Wrong)
	note(r.Once != r.Orders, "%d of %d orders were carried exactly once", r.Once, r.Orders)
	note(r.Strays > 0, "%d carried orders don't exist", r.Strays)
	note(r.Unproven > 0, "%d carry rows belong to no completed attempt", r.Unproven)
	note(r.DueCents != r.CarriedCents, "the orders add up to %d cents, what was carried to %d", r.DueCents, r.CarriedCents)
	note(r.Completed != r.Tasks, "%d of %d tasks completed", r.Completed, r.Tasks)
	return found
}
