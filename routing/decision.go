package routing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sched-sidecar/sched/sql/dbq"
)

const (
	decisionsMax     = 2000 // noted and not yet written
	decisionInterval = time.Second
	decisionTimeout  = 5 * time.Second
)

// Decision is something that sched decided by itself: a row of sched.decision.
type Decision struct {
	What    string // assignment, pressure, health, evict, canary, slots, pause, unroutable …
	Subject string // a queue, worker or kind; or fleet
	From    string // what was; empty: nothing
	To      string // what is now; empty: nothing
	Reason  string // in words
	Signals map[string]any
}

// DecisionLog writes decisions beside the work that they are about: noting one
// never waits for the database. Safe for concurrent use.
type DecisionLog struct {
	q      *dbq.Queries
	who    func() string
	logger *slog.Logger

	noted   *prometheus.CounterVec
	dropped prometheus.Counter

	news    chan struct{} // capacity 1: there is something to write
	mu      sync.Mutex
	pending []notedDecision
}

type notedDecision struct {
	Decision
	at time.Time
}

// NewDecisionLog returns a log that signs with who, the current worker id.
// Nothing is written until [DecisionLog.Run].
func NewDecisionLog(db dbq.DBTX, who func() string, logger *slog.Logger, registerer prometheus.Registerer) *DecisionLog {
	l := &DecisionLog{
		q: dbq.New(db), who: who, logger: logger, news: make(chan struct{}, 1),
		noted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "sched", Name: "decisions_total", Help: "Decisions that this sidecar made, by what they are about.",
		}, []string{"what"}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "sched", Name: "decisions_dropped_total", Help: "Decisions that were not written to sched.decision, because there were too many or Postgres was away.",
		}),
	}
	registerer.MustRegister(l.noted, l.dropped)
	return l
}

// Note remembers a decision for the next write. Beyond 2000 that wait it is
// dropped, and counted.
func (l *DecisionLog) Note(d Decision) {
	l.noted.WithLabelValues(d.What).Inc()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending) >= decisionsMax {
		l.dropped.Inc()
		return
	}
	l.pending = append(l.pending, notedDecision{Decision: d, at: time.Now()})
	l.tell()
}

func (l *DecisionLog) tell() {
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// Run writes what was noted, within a second, until ctx is done, and then a last time.
func (l *DecisionLog) Run(ctx context.Context) {
	healthy := true
	for {
		done := false
		select {
		case <-ctx.Done():
			done = true
		case <-l.news:
			select {
			case <-ctx.Done():
				done = true
			case <-time.After(decisionInterval):
			}
		}
		err := l.flush(ctx, done)
		if err != nil {
			l.tell()
		}
		if err != nil && healthy {
			l.logger.WarnContext(ctx, "decisions not written; trying again each second", slog.Any("error", err))
		}
		healthy = err == nil
		if done {
			return
		}
	}
}

// lastFlush bounds the last write, which must not hold up a shutdown.
const lastFlush = time.Second

func (l *DecisionLog) flush(ctx context.Context, last bool) error {
	ctx = context.WithoutCancel(ctx)
	if last {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, lastFlush)
		defer cancel()
	}
	return l.Flush(ctx)
}

// Flush writes what was noted so far. What could not be written waits for the
// next time, as far as there is room.
func (l *DecisionLog) Flush(ctx context.Context) error {
	l.mu.Lock()
	batch := l.pending
	l.pending = nil
	l.mu.Unlock()
	if len(batch) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, decisionTimeout)
	defer cancel()
	err := l.write(ctx, batch)
	if err == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if refused := new(pgconn.PgError); errors.As(err, &refused) && strings.HasPrefix(refused.Code, "22") {
		l.dropped.Add(float64(len(batch))) // text that Postgres can't store: it never will
		return err
	}
	room := max(decisionsMax-len(l.pending), 0)
	if lost := len(batch) - room; lost > 0 {
		l.dropped.Add(float64(lost))
		batch = batch[:room]
	}
	l.pending = append(batch, l.pending...)
	return err
}

func (l *DecisionLog) write(ctx context.Context, batch []notedDecision) error {
	type row struct {
		Age     float64         `json:"age"`
		What    string          `json:"what"`
		Subject string          `json:"subject"`
		From    *string         `json:"from,omitempty"`
		To      *string         `json:"to,omitempty"`
		Reason  string          `json:"reason"`
		Signals json.RawMessage `json:"signals,omitempty"`
	}
	optional := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	rows := make([]row, len(batch))
	for i, d := range batch {
		signals, err := json.Marshal(d.Signals)
		if err != nil || d.Signals == nil {
			signals = []byte("{}") // not a number: the decision counts more
		}
		rows[i] = row{
			Age: time.Since(d.at).Seconds(), What: d.What, Subject: d.Subject,
			From: optional(d.From), To: optional(d.To), Reason: d.Reason, Signals: signals,
		}
	}
	encoded, err := json.Marshal(rows)
	if err != nil {
		return fmt.Errorf("write decisions: %w", err)
	}
	if err := l.q.DecisionInsert(ctx, dbq.DecisionInsertParams{Who: l.who(), Entries: encoded}); err != nil {
		return fmt.Errorf("write decisions: %w", err)
	}
	return nil
}
