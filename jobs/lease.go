package jobs

import (
	"fmt"
	"regexp"
	"strconv"
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

// leasePattern is that of sched.parse_lease.
var leasePattern = regexp.MustCompile(`^([A-Za-z0-9_-]{1,127})\.([0-9]{1,17})$`)

// ParseLease reads a token made by [Lease.String], by the rules of the SQL API.
// It returns [ErrInvalidArgument] when the text isn't one.
func ParseLease(token string) (Lease, error) {
	parts := leasePattern.FindStringSubmatch(token)
	if parts == nil {
		return Lease{}, fmt.Errorf("%w: lease %.200q is not of the form <worker id>.<microseconds>; pass the Sched-Lease header unchanged", ErrInvalidArgument, token)
	}
	micros, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil {
		return Lease{}, fmt.Errorf("%w: lease %q: %w", ErrInvalidArgument, token, err) // cannot happen: 17 digits fit
	}
	return Lease{WorkerID: parts[1], AttemptedAt: time.UnixMicro(micros).UTC()}, nil
}
