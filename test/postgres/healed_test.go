//go:build !verify

package postgres_test

import "time"

// healed is how soon after a trouble is over a task that is enqueued starts, on a
// machine that has much else to do. make verify asks for more.
const healed = 20 * time.Second
