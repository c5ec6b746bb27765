package jobs

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Lease is the proof that an attempt still owns its task: the worker that
// claimed it and the moment of the claim. Postgres stores that moment with
// microsecond precision and never uses it twice for one task, so a lease names
// exactly one attempt, even when the same worker claims the task again.
type Lease struct {
	WorkerID    string
	AttemptedAt time.Time
}

// String renders the lease as the token that an app receives and hands back:
// the worker id, a dot, and the claim's time in microseconds since the epoch.
func (l Lease) String() string {
	return l.WorkerID + "." + strconv.FormatInt(l.AttemptedAt.UnixMicro(), 10)
}

// ParseLease reads a token made by [Lease.String]. It returns
// [ErrInvalidArgument] when the text isn't one.
func ParseLease(token string) (Lease, error) {
	worker, micros, ok := strings.Cut(token, ".")
	if !ok || worker == "" {
		return Lease{}, fmt.Errorf("%w: lease %q is not of the form <worker id>.<microseconds>; pass the Sched-Lease header unchanged", ErrInvalidArgument, token)
	}
	at, err := strconv.ParseInt(micros, 10, 64)
	if err != nil || at <= 0 {
		return Lease{}, fmt.Errorf("%w: lease %q has no claim time after its dot; pass the Sched-Lease header unchanged", ErrInvalidArgument, token)
	}
	return Lease{WorkerID: worker, AttemptedAt: time.UnixMicro(at).UTC()}, nil
}
