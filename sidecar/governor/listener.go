package governor

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sched-sidecar/sched/routing"
)

const (
	channelInsert   = "sched.river_insert"
	channelControl  = "sched.river_control"
	channelDue      = "sched.due"
	channelTopology = "sched.topology"
	channelConfig   = "sched.config"
	channelWorker   = "sched.worker"

	// channelProof carries a word that a listener sends itself.
	channelProof = "sched.listening"

	listenTimeout    = 10 * time.Second
	listenIdle       = 30 * time.Second
	listenBackoffMin = 100 * time.Millisecond
	listenBackoffMax = 5 * time.Second
	listenDeafRetry  = time.Minute
)

// listen turns notifications into wake-ups and cancels, on a connection of its
// own, until ctx ends. Without one, polls cover everything, only later.
func (g *Governor) listen(ctx context.Context) error {
	backoff, silent := listenBackoffMin, false
	for {
		heard, err := g.listenOnce(ctx)
		if heard {
			backoff, silent = listenBackoffMin, false
		}
		if !silent && ctx.Err() == nil {
			silent = true
			g.config.Logger.WarnContext(ctx, "not listening for notifications; polling until the connection is back",
				slog.Duration("poll_interval", g.config.PollInterval), slog.Any("error", err))
		}
		pause := backoff
		if errors.Is(err, errDeaf) {
			pause = listenDeafRetry
		}
		if !sleep(ctx, pause) {
			return nil
		}
		backoff = min(2*backoff, listenBackoffMax)
	}
}

// listenOnce listens until the connection breaks. It reports whether it had been
// heard to work.
func (g *Governor) listenOnce(ctx context.Context) (heard bool, err error) {
	conn, err := g.openListener(ctx)
	if err != nil {
		return false, err
	}
	defer func() {
		closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closeCtx) // it goes either way
	}()
	if err := g.proveListening(ctx, conn); err != nil {
		return false, err
	}
	// Only now: a pooler in transaction mode would keep these for ever, for whoever
	// gets the server process next.
	if err := say(ctx, conn, "LISTEN", channelInsert, channelControl, channelDue, channelTopology, channelConfig, channelWorker); err != nil {
		return false, err
	}
	g.listening.Store(true)
	defer func() {
		g.listening.Store(false)
		g.outdated() // read it often from now on
	}()
	g.outdated() // for what was missed until now
	g.pilot.wake()
	for {
		notification, err := waitForNotification(ctx, conn)
		if err != nil {
			return true, err
		}
		if notification != nil {
			g.notified(notification.Channel, notification.Payload)
		}
	}
}

func (g *Governor) openListener(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, listenTimeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, g.config.Listen.Copy())
	if err != nil {
		return nil, err
	}
	if err := say(ctx, conn, "LISTEN", channelProof); err != nil {
		_ = conn.Close(ctx)
		return nil, err
	}
	return conn, nil
}

// say sends LISTEN or UNLISTEN for each channel.
func say(ctx context.Context, conn *pgx.Conn, command string, channels ...string) error {
	ctx, cancel := context.WithTimeout(ctx, listenTimeout)
	defer cancel()
	for _, channel := range channels {
		if _, err := conn.Exec(ctx, command+" "+pgx.Identifier{channel}.Sanitize()); err != nil {
			return err
		}
	}
	return nil
}

// errDeaf: LISTEN succeeded, but nothing arrives, which is what a pooler in
// transaction mode does.
var errDeaf = errors.New("notifications don't arrive on this connection: if database.url leads to a pooler in transaction mode, set database.listen_url to Postgres itself")

// proveListening sends a notification through the pool and waits for it.
func (g *Governor) proveListening(ctx context.Context, conn *pgx.Conn) error {
	defer func() { _ = say(ctx, conn, "UNLISTEN", channelProof) }() // if that fails it is heard in vain, once
	proofCtx, cancel := context.WithTimeout(ctx, listenTimeout)
	defer cancel()
	token := routing.NewWorkerID()
	if err := g.q.ListenProof(proofCtx, token); err != nil {
		return err
	}
	for {
		notification, err := conn.WaitForNotification(proofCtx)
		switch {
		case err != nil && proofCtx.Err() != nil && ctx.Err() == nil:
			return errDeaf
		case err != nil:
			return err
		case notification.Channel == channelProof && notification.Payload == token:
			return nil
		}
		g.notified(notification.Channel, notification.Payload)
	}
}

// waitForNotification returns the next notification, or nil when the connection
// was silent for a while and has been found alive, and still with a server that
// writes: one that others have left for a new primary stays silent for ever.
func waitForNotification(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
	waitCtx, cancel := context.WithTimeout(ctx, listenIdle)
	defer cancel()
	notification, err := conn.WaitForNotification(waitCtx)
	if err == nil {
		return notification, nil
	}
	if ctx.Err() != nil || waitCtx.Err() == nil {
		return nil, err
	}
	pingCtx, cancelPing := context.WithTimeout(ctx, listenTimeout)
	defer cancelPing()
	return nil, pgconn.ValidateConnectTargetSessionAttrsReadWrite(pingCtx, conn.PgConn())
}

// inserted acts on the news that a queue has a task, meant for one worker or, if
// that is empty, for all.
func (g *Governor) inserted(queue, worker string) {
	g.heard.Add(1)
	if worker != "" && worker != g.workerID() {
		g.metrics.wakeups.WithLabelValues(wakeupForeign).Inc()
		return
	}
	if _, serves := g.policy.Load().Queue(queue); serves {
		g.metrics.wakeups.WithLabelValues(wakeupTaken).Inc()
		g.hints.add(queue)
		g.pilot.wake()
		if g.laneCount.Load() > 0 {
			// The task may lie behind a mark, and the sweep that finds it may rest just now.
			g.alarm.set(time.Now().Add(laneSecondLook))
		}
		return
	}
	g.metrics.wakeups.WithLabelValues(wakeupForeign).Inc()
	if g.foreign.add(queue) {
		g.outdated()
		g.newcomer()
	}
}

// notified acts on one notification. Payloads come from any client of the
// database: what isn't understood is left alone.
func (g *Governor) notified(channel, payload string) {
	switch channel {
	case channelInsert:
		var insert struct {
			Queue  string `json:"queue"`
			Worker string `json:"worker"`
		}
		if json.Unmarshal([]byte(payload), &insert) == nil {
			g.inserted(insert.Queue, insert.Worker)
		}
	case channelTopology:
		g.outdated()
	case channelWorker:
		g.newcomer()
	case channelConfig:
		g.flows.reconsider() // a limit may be another now
		g.pilot.wake()
		g.outdated()
		if payload == "queue" {
			g.newcomer()
		}
	case channelControl:
		var control struct {
			Action string `json:"action"`
			JobID  int64  `json:"job_id"`
		}
		if json.Unmarshal([]byte(payload), &control) != nil {
			return
		}
		switch control.Action {
		case "cancel":
			g.cancelTask(control.JobID)
		case "resume":
			g.pilot.wake()
		}
	case channelDue:
		if millis, err := strconv.ParseInt(payload, 10, 64); err == nil && g.leading.Load() {
			g.promoter.expect(time.UnixMilli(millis))
		}
	}
}
