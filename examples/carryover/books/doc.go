// Package books is the ledger of the carry-over example: the business tables,
// the orders in them, and the audit that says whether a month-end carried each
// order exactly once.
//
// The tables are built so that a mistake shows. Nothing in them keeps an order
// from being carried twice, and nothing hides one that was forgotten: what
// makes the effect exactly once is sched.complete in the app's transaction,
// and [Check] asks Postgres whether it did.
package books
