package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Statuses are those of a task, in the order of its life.
func Statuses() []string {
	return []string{"scheduled", "pending", "available", "running", "retryable", "completed", "cancelled", "discarded"}
}

// Filter says which tasks are meant. What is empty does not filter.
type Filter struct {
	Statuses []string
	Kinds    []string
	Queues   []string  // names; a base name stands for the queues derived from it too
	Batch    string    // name of a batch
	Since    time.Time // of the latest attempt's start; leaves out tasks that never started
	Until    time.Time // as Since, and excluded itself
	Worker   string    // id of the latest attempt's worker
}

// Empty reports whether every task is meant.
func (f Filter) Empty() bool {
	return len(f.Statuses) == 0 && len(f.Kinds) == 0 && len(f.Queues) == 0 && f.Batch == "" && f.Since.IsZero() && f.Until.IsZero() && f.Worker == ""
}

// byStart reports whether the filter is about starts, which then order the list.
func (f Filter) byStart() bool {
	return !f.Since.IsZero() || !f.Until.IsZero() || f.Worker != ""
}

// statusArray is the filter's statuses as the text of an array in Postgres: all
// of them if none is given.
func (f Filter) statusArray() string {
	statuses := f.Statuses
	if len(statuses) == 0 {
		statuses = Statuses()
	}
	return "{" + strings.Join(statuses, ",") + "}"
}

// Validate returns [ErrInvalid] for statuses that don't exist and a time span
// without a moment in it.
func (f Filter) Validate() error {
	for _, status := range f.Statuses {
		if !slices.Contains(Statuses(), status) {
			return fmt.Errorf("%w status %q: use %s", ErrInvalid, status, strings.Join(Statuses(), ", "))
		}
	}
	if !f.Since.IsZero() && !f.Until.IsZero() && !f.Since.Before(f.Until) {
		return fmt.Errorf("%w time span: since %s is not before until %s", ErrInvalid, f.Since.Format(time.RFC3339), f.Until.Format(time.RFC3339))
	}
	return nil
}

// resolved is a filter with what the database knows about its names.
type resolved struct {
	Filter

	queues []string // NULL: don't filter
	bases  []string // in place of queues where the login role may not read them
}

func (o *Operator) resolve(ctx context.Context, f Filter) (resolved, error) {
	if err := f.Validate(); err != nil {
		return resolved{}, err
	}
	r := resolved{Filter: f}
	if len(f.Queues) > 0 {
		names, err := o.q.QueueNames(ctx, f.Queues)
		switch {
		case sqlState(err) == codeNoPrivilege:
			r.bases = f.Queues
		case err != nil:
			return r, translate("looking up queues", err)
		default:
			r.queues = slices.Concat(names, f.Queues)
		}
	}
	if f.Worker != "" {
		began, err := o.q.WorkerBegan(ctx, f.Worker)
		switch {
		case err == nil && began.After(f.Since):
			// Nothing of it started before: the index on starts can begin there.
			r.Since = began
		case err != nil && sqlState(err) != codeNoPrivilege && !errors.Is(err, pgx.ErrNoRows):
			return r, translate("looking up worker "+f.Worker, err)
		}
	}
	return r, nil
}

// cursor is where a list goes on: after a task in the order of ids, or of starts
// and ids.
type cursor struct {
	start time.Time
	id    int64
}

func (c cursor) String() string {
	if c.start.IsZero() {
		return strconv.FormatInt(c.id, 10)
	}
	return strconv.FormatInt(c.start.UnixMicro(), 10) + "." + strconv.FormatInt(c.id, 10)
}

// parseCursor reads what an earlier page ended with. A cursor of the other order
// would skip tasks silently.
func parseCursor(text string, byStart bool) (cursor, error) {
	if text == "" {
		return cursor{}, nil
	}
	start, id, hasStart := strings.Cut(text, ".")
	if !hasStart {
		id = start
	}
	if hasStart != byStart {
		return cursor{}, fmt.Errorf("%w cursor %q: it belongs to a list with other filters", ErrInvalid, text)
	}
	var c cursor
	var err error
	if c.id, err = strconv.ParseInt(id, 10, 64); err == nil && hasStart {
		var micros int64
		micros, err = strconv.ParseInt(start, 10, 64)
		c.start = time.UnixMicro(micros)
	}
	if err != nil || c.id <= 0 {
		return cursor{}, fmt.Errorf("%w cursor %q: pass the one that the page before ended with", ErrInvalid, text)
	}
	return c, nil
}
