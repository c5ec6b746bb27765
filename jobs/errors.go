package jobs

import "errors"

// Errors of the SQL API, by SQLSTATE. Every function of this package that
// talks to Postgres returns them, wrapped with the server's message and hint.
var (
	// ErrInvalidArgument (22023): an argument is out of range or malformed.
	ErrInvalidArgument = errors.New("invalid argument")
	// ErrTooLarge (54000): args, or one call's number of tasks, is over the limit.
	ErrTooLarge = errors.New("too large")
	// ErrTaskNotFound (SC404): no task has this id.
	ErrTaskNotFound = errors.New("task not found")
	// ErrLeaseLost (SC409): the lease owns no running attempt any more.
	ErrLeaseLost = errors.New("lease lost")
	// ErrUniqueConflict (SC410): another unfinished task has this unique key.
	ErrUniqueConflict = errors.New("unique key taken by another unfinished task")
	// ErrRejected (SC429): the queue is red and its admission is reject. Nothing
	// was added; [RetryAfter] says when to try again.
	ErrRejected = errors.New("rejected under pressure")
	// ErrTaskRunning (SC423): the call needs a task that isn't running.
	ErrTaskRunning = errors.New("task is running")
)
