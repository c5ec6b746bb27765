package jobs_test

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/jobs"
)

// SendReceipt is a kind of task.
type SendReceipt struct {
	OrderID int64 `json:"order_id"`
}

// Kind is the handler's name in the app.
func (SendReceipt) Kind() string { return "receipt.send" }

// The task and the order are written together, or neither is.
func ExampleEnqueueTx() {
	ctx, pool, done := exampleDatabase()
	defer done()

	placeOrder := func(orderID int64, paid bool) error {
		tx, err := pool.Begin(ctx)
		if err != nil {
			return err
		}
		defer tx.Rollback(ctx) // does nothing after the commit

		if _, err := tx.Exec(ctx, "insert into orders (id) values ($1)", orderID); err != nil {
			return err
		}
		if _, err := jobs.EnqueueTx(ctx, tx, SendReceipt{OrderID: orderID}); err != nil {
			return err
		}
		if !paid {
			return errors.New("card declined")
		}
		return tx.Commit(ctx)
	}

	fmt.Println(placeOrder(1, true))
	fmt.Println(placeOrder(2, false))
	fmt.Println(listTasks(ctx, pool))
	// Output:
	// <nil>
	// card declined
	// receipt.send {"order_id": 1} available
}

// With database/sql, the transaction is wrapped.
func ExampleSQLTx() {
	ctx, pool, done := exampleDatabase()
	defer done()

	placeOrder := func(db *sql.DB, orderID int64) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() //nolint:errcheck // does nothing after the commit

		if _, err := tx.ExecContext(ctx, "insert into orders (id) values ($1)", orderID); err != nil {
			return err
		}
		if _, err := jobs.EnqueueTx(ctx, jobs.SQLTx(tx), SendReceipt{OrderID: orderID}); err != nil {
			return err
		}
		return tx.Commit()
	}

	db, err := sql.Open("pgx", pgtest.DSN(pool))
	if err != nil {
		panic(err)
	}
	defer db.Close()
	fmt.Println(placeOrder(db, 1))
	fmt.Println(listTasks(ctx, pool))
	// Output:
	// <nil>
	// receipt.send {"order_id": 1} available
}

// Options say where, when and how often.
func ExampleEnqueue() {
	ctx, pool, done := exampleDatabase()
	defer done()

	first, err := jobs.Enqueue(ctx, pool, SendReceipt{OrderID: 7},
		jobs.Queue("mail"),
		jobs.Delay(10*time.Minute),
		jobs.MaxAttempts(5),
		jobs.UniqueKey("receipt 7"),
	)
	if err != nil {
		panic(err)
	}
	// The same key again, while the first task is unfinished: no second task.
	second, err := jobs.Enqueue(ctx, pool, SendReceipt{OrderID: 7}, jobs.UniqueKey("receipt 7"))
	if err != nil {
		panic(err)
	}
	fmt.Println("same task:", first == second)
	fmt.Println(listTasks(ctx, pool))
	// Output:
	// same task: true
	// receipt.send {"order_id": 7} scheduled
}

// An error says what was wrong and what to do; its kind is for errors.Is.
func ExampleEnqueue_error() {
	ctx, pool, done := exampleDatabase()
	defer done()

	_, err := jobs.Enqueue(ctx, pool, SendReceipt{OrderID: 7}, jobs.Priority(9))
	fmt.Println(errors.Is(err, jobs.ErrInvalidArgument))
	// Output:
	// true
}

// A batch is many tasks under one name, added in one call.
func ExampleEnqueueMany() {
	ctx, pool, done := exampleDatabase()
	defer done()

	var tasks []jobs.Task
	for orderID := range int64(3) {
		tasks = append(tasks, jobs.Task{
			Args:    SendReceipt{OrderID: orderID},
			Options: []jobs.Option{jobs.Batch("receipts of May")},
		})
	}
	ids, err := jobs.EnqueueMany(ctx, pool, tasks)
	if err != nil {
		panic(err)
	}
	fmt.Println(len(ids), "tasks")

	var total int
	if err := pool.QueryRow(ctx, "select total from sched.batch where batch = 'receipts of May'").Scan(&total); err != nil {
		panic(err)
	}
	fmt.Println(total, "in the batch")
	// Output:
	// 3 tasks
	// 3 in the batch
}

// A task for an app in another language needs no Go type.
func ExampleRaw() {
	ctx, pool, done := exampleDatabase()
	defer done()

	_, err := jobs.Enqueue(ctx, pool, jobs.Raw("image.resize", []byte(`{"width": 640}`)))
	if err != nil {
		panic(err)
	}
	fmt.Println(listTasks(ctx, pool))
	// Output:
	// image.resize {"width": 640} available
}

// The effect and the task's completion commit together. When the same task is
// delivered again, Complete refuses, and the effect is rolled back.
func ExampleComplete() {
	ctx, pool, done := exampleDatabase()
	defer done()

	// What a handler does. The sidecar's request brings the task's id and lease.
	handle := func(taskID int64, lease string, orderID int64) error {
		tx, err := pool.Begin(ctx)
		if err != nil {
			return err
		}
		defer tx.Rollback(ctx) // does nothing after the commit

		if _, err := tx.Exec(ctx, "update orders set receipts = receipts + 1 where id = $1", orderID); err != nil {
			return err
		}
		if err := jobs.Complete(ctx, tx, taskID, lease, map[string]string{"sent": "ok"}); err != nil {
			return err
		}
		return tx.Commit(ctx)
	}

	taskID, lease := claimedTask(ctx, pool)
	fmt.Println(handle(taskID, lease, 1))
	fmt.Println("delivered again:", errors.Is(handle(taskID, lease, 1), jobs.ErrLeaseLost))

	var receipts int
	if err := pool.QueryRow(ctx, "select receipts from orders where id = 1").Scan(&receipts); err != nil {
		panic(err)
	}
	fmt.Println("receipts sent:", receipts)
	// Output:
	// <nil>
	// delivered again: true
	// receipts sent: 1
}

// A cancelled task can be run after all.
func ExampleCancel() {
	ctx, pool, done := exampleDatabase()
	defer done()

	id, err := jobs.Enqueue(ctx, pool, SendReceipt{OrderID: 7})
	if err != nil {
		panic(err)
	}
	status, err := jobs.Cancel(ctx, pool, id)
	fmt.Println(status, err)
	status, err = jobs.Retry(ctx, pool, id)
	fmt.Println(status, err)
	// Output:
	// cancelled <nil>
	// available <nil>
}

// The waits after the first failures, without their jitter, and at the cap.
func ExampleRetryPolicy_Delay() {
	policy := jobs.DefaultRetryPolicy()
	const middle = 0.5 // of the jitter; rand.Float64() in earnest
	for failures := range 4 {
		fmt.Println(policy.Delay(failures, middle))
	}
	fmt.Println("longest:", policy.Delay(24, 1))
	// Output:
	// 100ms
	// 200ms
	// 400ms
	// 800ms
	// longest: 5m0s
}
