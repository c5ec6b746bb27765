package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sched-sidecar/sched/examples/carryover/books"
)

// audit checks the books and prints the result.
func audit(ctx context.Context, st *stage) error {
	st.out.say("all tasks are completed; checking the books in SQL")
	report, err := books.Check(ctx, st.pool)
	if err != nil {
		return err
	}
	st.out.say("attempts: %d completed, %d rescued from the dead sidecar, %d tried again after the app's death",
		report.Completed, report.Rescued, report.Retried)
	st.out.say("audit trail: %d attempts started in an app; the %d that died there left nothing in the books",
		report.Started, report.Started-report.Completed)
	st.out.say("the books: %s due, %s carried", money(report.DueCents), money(report.CarriedCents))
	st.out.print("carryover: %d orders, %d carried exactly once, %d lost, %d twice, %d rescued, %.1f s",
		report.Orders, report.Once, report.Lost, report.Twice, report.Rescued, st.out.elapsed().Seconds())
	return verdict(report, st.orders)
}

// verdict is nil when the books are in order and the demo showed what it is for.
func verdict(report books.Report, orders int) error {
	problems := report.Problems()
	if report.Orders != int64(orders) {
		problems = append(problems, fmt.Sprintf("%d orders are in the books, not %d", report.Orders, orders))
	}
	if report.Rescued == 0 {
		problems = append(problems, "no task was rescued: the kill hit nothing in flight")
	}
	if len(problems) == 0 {
		return nil
	}
	return errors.New(strings.Join(problems, "; "))
}

// money writes cents as an amount.
func money(cents int64) string {
	sign := ""
	if cents < 0 {
		sign, cents = "-", -cents
	}
	return fmt.Sprintf("%s%s.%02d", sign, thousands(cents/100), cents%100)
}
