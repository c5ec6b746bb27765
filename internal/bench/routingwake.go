package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	channelWake = "sched.river_insert"
	metricClaim = "sched_claims_total"

	wakeSpacing = 100 * time.Millisecond
	lostTasks   = 12               // tasks whose wake-up is lost
	lostWindow  = 15 * time.Second // less than it takes to evict the dead worker
	lostJitter  = 300 * time.Millisecond
)

// metric reads a sample without labels from a sidecar.
func (c *child) metric(ctx context.Context, name string) (value float64, err error) {
	err = c.get(ctx, "/metrics", func(body io.Reader) error {
		lines := bufio.NewScanner(body)
		for lines.Scan() {
			if text, found := strings.CutPrefix(lines.Text(), name+" "); found {
				value, err = strconv.ParseFloat(text, 64)
				return err
			}
		}
		return errors.Join(lines.Err(), fmt.Errorf("the %s has no metric %s", c.name, name))
	})
	return value, err
}

// claims is how many claim statements all sidecars have sent.
func (t *troop) claims(ctx context.Context) (total float64, err error) {
	for _, sidecar := range t.sidecars {
		n, err := sidecar.metric(ctx, metricClaim)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// wakeClaims counts the claims that a task causes in an idle fleet: those of a time
// with tasks, less those of as long a time of polls before and after.
func (r *Runner) wakeClaims(ctx context.Context) (figures []Figure, err error) {
	t, err := r.muster(ctx, make([]int, r.config.Routing.Idle), "")
	if err != nil {
		return nil, err
	}
	defer func() { err = closing(err, t.stop) }()
	conn, err := pgx.Connect(ctx, t.db.dsn)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	most := 0.0
	for i := range r.config.Rounds {
		caused, notified, err := t.wakeRound(ctx, conn)
		if err != nil {
			return nil, err
		}
		most = max(most, caused)
		r.report.note("wake round %d of %d: %.2f claims and %.2f notifications a task", i+1, r.config.Rounds, caused, notified)
	}
	return []Figure{newFigure("routing.wake.claim_queries", most, "claims", AtMost(2), r.config.Rounds)}, nil
}

func (t *troop) wakeRound(ctx context.Context, conn *pgx.Conn) (caused, notified float64, err error) {
	n := t.r.config.Routing.Enqueues
	ear, err := t.db.overhear(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer ear.close()
	if err := pause(ctx, wakeSettle); err != nil {
		return 0, 0, err
	}
	idle := func() error { return pause(ctx, time.Duration(n)*wakeSpacing) }
	before, err := t.claimsDuring(ctx, idle)
	if err != nil {
		return 0, 0, err
	}
	ear.take()
	during, err := t.claimsDuring(ctx, func() error {
		for range n {
			if _, err := enqueueOne(ctx, conn, noopKind); err != nil {
				return err
			}
			if err := pause(ctx, wakeSpacing); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, 0, err
	}
	heard := ear.take()
	after, err := t.claimsDuring(ctx, idle)
	if err != nil {
		return 0, 0, err
	}
	polls := (before.perSecond() + after.perSecond()) / 2 * during.seconds
	return (during.claims - polls) / float64(n), float64(len(heard)) / float64(n), nil
}

// claimed is claims in a time.
type claimed struct{ claims, seconds float64 }

func (c claimed) perSecond() float64 { return c.claims / c.seconds }

func (t *troop) claimsDuring(ctx context.Context, do func() error) (result claimed, err error) {
	before, err := t.claims(ctx)
	if err != nil {
		return result, err
	}
	begin := time.Now()
	if err := do(); err != nil {
		return result, err
	}
	result.seconds = time.Since(begin).Seconds()
	after, err := t.claims(ctx)
	result.claims = after - before
	return result, err
}

// wakeSettle is how long workers may go on polling by themselves after they had
// something to do.
const wakeSettle = 5 * time.Second

// busyNotifies counts notifications while workers poll by themselves, and while all
// of them are full.
func (r *Runner) busyNotifies(ctx context.Context) ([]Figure, error) {
	const pollRate, workers, fewSlots, excess = 200, 2, 4, 2
	set := r.config.Routing
	polling, err := r.notifiesAt(ctx, make([]int, workers), noopKind, pollRate)
	if err != nil {
		return nil, err
	}
	few := make([]int, workers)
	for i := range few {
		few[i] = fewSlots
	}
	full, err := r.notifiesAt(ctx, few, workKind, excess*workers*fewSlots/set.Work.Seconds())
	if err != nil {
		return nil, err
	}
	r.report.note("notifications a task: %.4f while workers poll, %.4f while all are full", polling, full)
	return []Figure{newFigure("routing.wake.notifies_while_busy", max(polling, full), "notifications", AtMost(0), 1)}, nil
}

// notifiesAt paces tasks and counts the notifications that each sends, once the
// fleet has noticed that it is busy.
func (r *Runner) notifiesAt(ctx context.Context, slots []int, kind string, rate float64) (each float64, err error) {
	set := r.config.Routing
	t, err := r.muster(ctx, slots, "", "-work", set.Work.String())
	if err != nil {
		return 0, err
	}
	defer func() { err = closing(err, t.stop) }()
	ear, err := t.db.overhear(ctx)
	if err != nil {
		return 0, err
	}
	defer ear.close()
	if _, _, err := t.db.paced(ctx, kind, rate, wakeSettle); err != nil {
		return 0, err
	}
	ear.take()
	n, _, err := t.db.paced(ctx, kind, rate, set.Busy)
	if err != nil {
		return 0, err
	}
	return float64(len(ear.take())) / float64(n), nil
}

// ear listens for wake-ups.
type ear struct {
	cancel context.CancelFunc
	ended  chan struct{}

	mu    sync.Mutex
	heard []string
}

func (d *database) overhear(ctx context.Context) (*ear, error) {
	conn, err := pgx.Connect(ctx, d.dsn)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	if _, err := conn.Exec(ctx, "listen "+pgx.Identifier{channelWake}.Sanitize()); err != nil {
		return nil, errors.Join(fmt.Errorf("listening: %w", err), conn.Close(ctx))
	}
	ctx, cancel := context.WithCancel(ctx)
	e := &ear{cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(e.ended)
		defer conn.Close(context.WithoutCancel(ctx))
		for {
			notification, err := conn.WaitForNotification(ctx)
			if err != nil {
				return // it was closed, or the server is gone, which others notice
			}
			e.mu.Lock()
			e.heard = append(e.heard, notification.Payload)
			e.mu.Unlock()
		}
	}()
	return e, nil
}

func (e *ear) close() {
	e.cancel()
	<-e.ended
}

// take returns the payloads that came since the last time.
func (e *ear) take() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	heard := e.heard
	e.heard = nil
	return heard
}

// lostWakes measures how late tasks start whose wake-up went to a worker that had
// died, with one other to find them.
func (r *Runner) lostWakes(ctx context.Context) (figures []Figure, err error) {
	worst, lost := 0.0, 0
	for range r.config.Rounds {
		delays, err := r.lostRound(ctx)
		if err != nil {
			return nil, err
		}
		for _, delay := range delays {
			worst = max(worst, delay)
		}
		lost += len(delays)
	}
	r.report.note("lost wake-ups: %d, the latest start %.0f ms after its commit", lost, worst)
	return []Figure{newFigure("routing.wake.lost_delay_ms", worst, "ms", AtMost(1000), r.config.Rounds)}, nil
}

func (r *Runner) lostRound(ctx context.Context) (delays []float64, err error) {
	t, err := r.muster(ctx, make([]int, 2), "", "-starts")
	if err != nil {
		return nil, err
	}
	defer func() { err = closing(err, t.stop) }()
	victim, err := t.killFollower(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, t.db.dsn)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	ear, err := t.db.overhear(ctx)
	if err != nil {
		return nil, err
	}
	defer ear.close()
	for begin, n := time.Now(), 1; len(delays) < lostTasks && time.Since(begin) < lostWindow; n++ {
		ear.take()
		id, err := enqueueOne(ctx, conn, noopKind)
		if err != nil {
			return nil, err
		}
		committed := time.Now().UnixNano()
		if err := awaitStarts(ctx, t.app, n+1); err != nil { // and the one of the muster
			return nil, err
		}
		if !names(ear.take(), victim) { // somebody else was woken
			if err := pause(ctx, wakeSpacing); err != nil {
				return nil, err
			}
			continue
		}
		at, err := startOf(ctx, t.app, id)
		if err != nil {
			return nil, err
		}
		delays = append(delays, float64(max(0, at-committed))/float64(time.Millisecond))
		if err := pause(ctx, jitter(lostJitter)); err != nil {
			return nil, err
		}
	}
	if len(delays) == 0 {
		return nil, errors.New("no wake-up named the worker that had died: nothing was lost")
	}
	return delays, nil
}

// killFollower kills a sidecar that doesn't lead, and returns its worker's id.
func (t *troop) killFollower(ctx context.Context) (worker string, err error) {
	for i, sidecar := range t.sidecars {
		leads, err := sidecar.metric(ctx, "sched_leading")
		if err != nil {
			return "", err
		}
		if leads != 0 {
			continue
		}
		err = t.db.pool.QueryRow(ctx, "select id from sched.worker where pid = $1", sidecar.pid()).Scan(&worker)
		if err != nil {
			return "", fmt.Errorf("reading a worker's id: %w", err)
		}
		sidecar.kill()
		t.sidecars = append(t.sidecars[:i:i], t.sidecars[i+1:]...)
		return worker, nil
	}
	return "", errors.New("every sidecar leads")
}

func names(payloads []string, worker string) bool {
	for _, payload := range payloads {
		var wake struct {
			Worker string `json:"worker"`
		}
		if json.Unmarshal([]byte(payload), &wake) == nil && wake.Worker == worker {
			return true
		}
	}
	return false
}

// startOf is when a task's first start was, in nanoseconds of the machine's clock.
func startOf(ctx context.Context, app *child, id int64) (int64, error) {
	var starts []taskStart
	if err := app.get(ctx, pathStarts, func(body io.Reader) error { return json.NewDecoder(body).Decode(&starts) }); err != nil {
		return 0, err
	}
	for _, start := range starts {
		if start.TaskID == id {
			return start.Nanos, nil
		}
	}
	return 0, fmt.Errorf("task %d didn't start", id)
}
