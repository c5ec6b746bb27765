package httpapp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/sidecar/answer"
	"github.com/sched-sidecar/sched/sidecar/dispatch"
)

// Dispatcher hands tasks to one app. It is safe for concurrent use.
type Dispatcher struct {
	target        target
	keys          [][]byte
	source        string // as a header value
	userAgent     string
	api           string // of the sidecar, in front of /v1/tasks; empty: not told
	maxBody       int64
	healthPath    string
	healthTimeout time.Duration
	dialer        net.Dialer
	transport     transport
	probes        transport // of its own: never waits for a busy connection, and keeps none
	logger        *slog.Logger
	clock         func() time.Time
}

var _ dispatch.Dispatcher = (*Dispatcher)(nil)

// New returns a dispatcher, or an error that names what to change in config.
// It doesn't connect. Callers must Close it.
func New(config Config) (*Dispatcher, error) {
	config = config.withDefaults()
	target, targetErr := parseTarget(config.URL)
	keys, secretErr := parseSecrets(config.Secrets)
	if err := errors.Join(targetErr, secretErr, config.validate()); err != nil {
		return nil, err
	}
	d := &Dispatcher{
		target:        target,
		keys:          keys,
		source:        encodeValue(config.Source),
		userAgent:     config.UserAgent,
		maxBody:       config.MaxResponseBytes,
		healthPath:    config.HealthPath,
		healthTimeout: config.HealthTimeout,
		dialer:        net.Dialer{Timeout: config.DialTimeout},
		logger:        config.Logger,
		clock:         config.Clock,
	}
	d.transport = d.newTransport(config)
	config.MaxConns, config.MaxIdleConns = 0, 0
	d.probes = d.newTransport(config)
	return d, nil
}

// transport sends requests over connections that it keeps.
type transport interface {
	// send returns the response once its header is there. Its body must be closed.
	send(ctx context.Context, r *request) (*http.Response, error)
	CloseIdleConnections()
}

func (d *Dispatcher) newTransport(config Config) transport {
	if d.target.h2c || d.target.scheme == "https" {
		return newStandard(d.target, d.dial, config)
	}
	return newPlain(d.target.host, d.dial, config)
}

// fullQueuePause is how soon a Unix socket whose queue is full is tried again.
const fullQueuePause = 5 * time.Millisecond

// dial connects to the app. A Unix socket with a full queue refuses at once where
// TCP waits; that is an app which is busy, so this waits for it, no longer than a
// dial may take.
func (d *Dispatcher) dial(ctx context.Context) (net.Conn, error) {
	until := time.Now().Add(d.dialer.Timeout)
	for {
		conn, err := d.dialer.DialContext(ctx, d.target.network, d.target.address)
		if err == nil || !errors.Is(err, syscall.EAGAIN) || time.Until(until) < fullQueuePause {
			return conn, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(fullQueuePause):
		}
	}
}

// TellAPI makes every request say, in the header Sched-Api, where the sidecar's API
// takes what becomes of its task. Base is http://host:port. To be called before the
// first Dispatch.
func (d *Dispatcher) TellAPI(base string) { d.api = base }

// Close closes idle connections. Call it when no Dispatch runs any more.
func (d *Dispatcher) Close() {
	d.transport.CloseIdleConnections()
	d.probes.CloseIdleConnections()
}

// Dispatch sends the task to the app and returns what its response says.
func (d *Dispatcher) Dispatch(ctx context.Context, task *dispatch.Task) jobs.Outcome {
	start := d.clock()
	response, err := d.transport.send(ctx, d.post(task, start))
	if err != nil {
		return d.unanswered(ctx, err, start)
	}
	// What could be read is read by then; closing has nothing to add.
	defer func() { _ = response.Body.Close() }()
	r, err := read(response, d.maxBody)
	if err != nil {
		return d.unanswered(ctx, err, start)
	}
	if r.tooLong {
		d.logger.WarnContext(ctx, "completed a task without its output: the response is over the limit",
			task.LogAttrs(), slog.Int("status", r.status), slog.Int64("max_response_bytes", d.maxBody))
	}
	return outcomeOf(r, task.Kind, d.clock())
}

// unanswered is the outcome of an attempt without a whole response.
func (d *Dispatcher) unanswered(ctx context.Context, err error, start time.Time) jobs.Outcome {
	if ctx.Err() != nil {
		return dispatch.Interrupted(context.Cause(ctx), d.clock().Sub(start), "an answer from the app")
	}
	text := answer.Text(d.noAnswer(err).Error(), errorBytes)
	if neverSent(err) {
		return jobs.Outcome{Kind: jobs.OutcomeHandBack, AppDown: true, Error: text}
	}
	return jobs.Outcome{Kind: jobs.OutcomeRetry, Error: text}
}

// neverSent reports whether no connection to the app came about, so that it can't
// have seen the task.
func neverSent(err error) bool {
	var opErr *net.OpError
	return errors.As(err, &opErr) && opErr.Op == "dial"
}

// noAnswer explains an error of the transport.
func (d *Dispatcher) noAnswer(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return fmt.Errorf("no answer from the app at %s: it closed the connection first (%w)", d.target.display, err)
	}
	return fmt.Errorf("no answer from the app at %s: %w", d.target.display, err)
}
