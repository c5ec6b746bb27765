package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/sched-sidecar/sched/internal/config"
	"github.com/sched-sidecar/sched/routing"
	"github.com/sched-sidecar/sched/sidecar/governor"
	"github.com/sched-sidecar/sched/sidecar/remainder"
)

// errEmpty is why a run ended that lasts until its queues are empty.
var errEmpty = errors.New("nothing is left to do")

// notDoneError is that of a run that was stopped while tasks were left. It counts
// as cancelled.
type notDoneError struct {
	cause error
}

func (e *notDoneError) Error() string { return "stopped while tasks were left: " + e.cause.Error() }

func (e *notDoneError) Unwrap() []error { return []error{e.cause, context.Canceled} }

// remaining ends a sidecar's run when nothing is left that it could run.
type remaining struct {
	watcher *remainder.Watcher
}

func newRemaining(cfg config.Sidecar, opts Options, pool *pgxpool.Pool, gov *governor.Governor) (*remaining, error) {
	watcher, err := remainder.New(remainder.Config{
		DB: pool, Queues: routing.NewRegistry(pool), Sidecar: status{gov}, ClientID: opts.clientID,
		Labels: cfg.Labels, Protocols: []string{cfg.App.Protocol}, Bases: cfg.Queues, Kinds: cfg.Kinds, Logger: opts.Logger,
	})
	return &remaining{watcher}, err
}

// watch looks until parts ends, and returns a context that ends with ctx, and
// with [errEmpty] when nothing is left.
func (r *remaining) watch(ctx, partsCtx context.Context, parts *errgroup.Group) context.Context {
	ctx, end := context.WithCancelCause(ctx)
	parts.Go(func() error {
		if err := r.watcher.AwaitEmpty(partsCtx); err == nil {
			end(errEmpty)
		}
		return nil // it only ever ends because the parts do
	})
	context.AfterFunc(partsCtx, func() { end(context.Cause(partsCtx)) })
	return ctx
}

// verdict says what came of a run that ctx ended, after its outcomes are written.
// An end that came from outside may still have found everything done.
func (r *remaining) verdict(ctx context.Context) error {
	afterwards := context.WithoutCancel(ctx)
	cause := context.Cause(ctx)
	if !errors.Is(cause, errEmpty) {
		empty, err := r.watcher.Empty(afterwards)
		if err != nil {
			return fmt.Errorf("the look for tasks that are left: %w", err)
		}
		if !empty {
			return &notDoneError{cause}
		}
	}
	return r.watcher.Verdict(afterwards)
}

// status is the governor's, as package remainder wants it.
type status struct {
	governor *governor.Governor
}

// Running is the number of tasks that run here.
func (s status) Running() int { return s.governor.Status().Running }

// SkippedKinds are those that are not claimed now because the app lacks them.
func (s status) SkippedKinds() []string { return s.governor.Status().SkippedKinds }
