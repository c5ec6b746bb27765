package remainder

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sched-sidecar/sched/sql/dbq"
)

const (
	failedShown  = 10   // tasks named in an error
	failedMax    = 1000 // tasks read to count them
	lackingMax   = 1000
	errorExcerpt = 200
)

// ErrFailed is returned by [Watcher.Verdict] when the run is not a success.
var ErrFailed = errors.New("not everything succeeded")

// Verdict says what came of the run, once it has ended: nil, or an [ErrFailed] that names the tasks.
func (w *Watcher) Verdict(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	failed, err := w.q.RemainderFailed(ctx, dbq.RemainderFailedParams{ClientID: w.config.ClientID, Max: failedMax})
	if err != nil {
		return fmt.Errorf("read the tasks that failed: %w", err)
	}
	left, err := w.q.RemainderLacking(ctx, dbq.RemainderLackingParams{
		Lacking: w.lacking.kinds(), Labels: w.labels, Protocols: w.config.Protocols, Bases: w.config.Bases, Max: lackingMax,
	})
	if err != nil {
		return fmt.Errorf("read the tasks that were left behind: %w", err)
	}
	if len(failed) == 0 && len(left) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrFailed, strings.Join(append(describeFailed(failed), describeLeft(left)...), "; "))
}

func describeFailed(failed []dbq.RemainderFailedRow) []string {
	if len(failed) == 0 {
		return nil
	}
	named := make([]string, 0, failedShown)
	for _, task := range failed[:min(len(failed), failedShown)] {
		named = append(named, fmt.Sprintf("task %d (%s) was %s: %s", task.ID, task.Kind, task.Status, excerpt(task.Error)))
	}
	count := counted(int64(len(failed)), failedMax)
	switch {
	case len(failed) > failedShown:
		return []string{fmt.Sprintf("%s tasks failed for good, the first %d: %s", count, failedShown, strings.Join(named, "; "))}
	case len(failed) > 1:
		return []string{fmt.Sprintf("%s tasks failed for good: %s", count, strings.Join(named, "; "))}
	}
	return named
}

func describeLeft(left []dbq.RemainderLackingRow) []string {
	said := make([]string, 0, len(left)+1)
	for _, row := range left {
		said = append(said, fmt.Sprintf("left behind because the app answers 404 to their kind: %s of %s", counted(row.Tasks, lackingMax), row.Kind))
	}
	if len(left) > 0 {
		said = append(said, "if another app has these kinds, narrow this run with --kinds")
	}
	return said
}

// counted says that a count ended at its bound.
func counted(n int64, bound int64) string {
	if n >= bound {
		return fmt.Sprintf("%d or more", bound)
	}
	return fmt.Sprint(n)
}

// excerpt is the first line of an error, or what fits of it.
func excerpt(text string) string {
	first, _, more := strings.Cut(text, "\n")
	if len(first) > errorExcerpt {
		first, more = strings.ToValidUTF8(first[:errorExcerpt], ""), true
	}
	if more {
		first += " …"
	}
	if first == "" {
		return "without an error text"
	}
	return first
}
