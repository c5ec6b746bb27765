package governor

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sched-sidecar/sched/sql/dbq"
)

const (
	promoteMax     = 1000
	promoteTimeout = 10 * time.Second
	// promoteLookahead is how far ahead a due time gets a timer of its own.
	// What is due later is found by the leader's look each second.
	promoteLookahead = 2 * time.Second
	// promoteSlack lets the timer fire after the due time rather than just before.
	promoteSlack = time.Millisecond
)

// promoter makes scheduled and retryable tasks available when their time has
// come. Every sidecar has one: it minds the short delays that its own settles
// wrote, and all of them while it leads.
type promoter struct {
	q      dbq.Querier
	logger *slog.Logger

	mu   sync.Mutex
	next time.Time     // zero: nothing expected
	news chan struct{} // capacity 1: next moved closer
}

func newPromoter(q dbq.Querier, logger *slog.Logger) *promoter {
	return &promoter{q: q, logger: logger, news: make(chan struct{}, 1)}
}

// expect notes that a task is due at a time, if that is near.
func (p *promoter) expect(due time.Time) {
	due = due.Add(promoteSlack)
	if time.Until(due) > promoteLookahead {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.next.IsZero() && !due.Before(p.next) {
		return
	}
	p.next = due
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// run promotes at each expected time until ctx ends.
func (p *promoter) run(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for failing := false; ; {
		p.mu.Lock()
		next := p.next
		p.mu.Unlock()
		if next.IsZero() {
			timer.Reset(time.Hour)
		} else {
			timer.Reset(max(0, time.Until(next)))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.news:
		case <-timer.C:
			p.mu.Lock()
			p.next = time.Time{}
			p.mu.Unlock()
			if next.IsZero() {
				continue
			}
			err := p.promote(ctx)
			if err != nil && ctx.Err() == nil {
				if !failing {
					p.logger.WarnContext(ctx, "promoting due tasks failed; trying again each second", slog.Any("error", err))
				}
				p.expect(time.Now().Add(time.Second))
			}
			failing = err != nil
		}
	}
}

// promote makes everything available that is due now, and notes what is due next.
func (p *promoter) promote(ctx context.Context) error {
	for {
		row, err := p.promoteOnce(ctx)
		if err != nil {
			return err
		}
		if row.Promoted == promoteMax {
			continue
		}
		p.expect(time.Now().Add(time.Duration(row.NextDueMs * float64(time.Millisecond))))
		return nil
	}
}

func (p *promoter) promoteOnce(ctx context.Context) (dbq.TaskPromoteRow, error) {
	ctx, cancel := context.WithTimeout(ctx, promoteTimeout)
	defer cancel()
	return p.q.TaskPromote(ctx, promoteMax)
}
