package worker

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	workerv1 "github.com/sched-sidecar/sched/proto/sched/worker/v1"
)

const (
	windowDefault = 256
	backoffMin    = 50 * time.Millisecond
	backoffMax    = 2 * time.Second
	resultsMax    = 512 // in one frame
	resultBytes   = 4 << 20
	receiveMax    = 64 << 20
	inFlightMax   = 5000 // that a hello may name
	// awayMax is how long a sidecar that is away is waited for after the end: by then
	// it, or whoever takes its place, has failed what was left here.
	awayMax       = 5 * time.Second
	keepaliveTime = 20 * time.Second
)

// Options say what [Run] does. Target and Handlers are required.
type Options struct {
	// Target is where the sidecar takes sessions: unix:///path/to.sock or host:port.
	Target string
	// Handlers by kind.
	Handlers map[string]Handler
	// Window is how many tasks run at once here, 1 to 5000. 0: 256.
	Window int
	// Version and Labels are shown to people. Optional.
	Version string
	Labels  map[string]string
	// LoadPercent is this app's own measure of its load, 0 to 100. Optional.
	LoadPercent func() float64
	// Logger: nil discards.
	Logger *slog.Logger
}

// Run works on tasks until ctx ends. Then it takes no more, lets those that it has
// finish as long as the sidecar lets it, and returns nil. It returns an error at
// once when the options are wrong or the sidecar refuses them; a sidecar that is
// away or restarts is waited for.
func Run(ctx context.Context, options Options) error {
	if options.Target == "" || len(options.Handlers) == 0 {
		return errors.New("worker: set Target and at least one of Handlers")
	}
	if options.Window == 0 {
		options.Window = windowDefault
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	conn, err := grpc.NewClient(options.Target, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(receiveMax)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTime}))
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	defer func() { _ = conn.Close() }() // nothing is left on it
	c := &client{
		options: options, instance: cryptorand.Text(),
		running: map[key]context.CancelCauseFunc{}, progress: map[key]*workerv1.Progress{}, news: make(chan struct{}, 1),
	}
	defer c.handlers.Wait()
	defer c.abandon(errors.New("the worker stops"))
	return c.run(ctx, workerv1.NewWorkerServiceClient(conn))
}

type key struct {
	taskID int64
	lease  string
}

// client is the state that outlives a session.
type client struct {
	options  Options
	instance string
	handlers sync.WaitGroup
	news     chan struct{} // capacity 1: there is something to send

	mu       sync.Mutex
	running  map[key]context.CancelCauseFunc
	progress map[key]*workerv1.Progress
	results  []*workerv1.Result // to be sent
	// Sent on the present session, frame by frame; sent again on the next. There is at
	// least a window of them, if so many were sent.
	sent   [][]*workerv1.Result
	sentOf int // results in sent
}

// run opens sessions until ctx has ended and nothing is left to return.
func (c *client) run(ctx context.Context, service workerv1.WorkerServiceClient) error {
	backoff := backoffMin
	var away time.Time // since when, after ctx's end
	for {
		welcomed, err := c.session(ctx, service)
		switch {
		case welcomed || ctx.Err() == nil:
			away = time.Time{}
		case away.IsZero():
			away = time.Now()
		}
		switch {
		case err == nil:
			return nil
		case !away.IsZero() && time.Since(away) > awayMax:
			return fmt.Errorf("worker: the sidecar is away; what was not returned runs again: %w", err)
		case status.Code(err) == codes.InvalidArgument:
			return fmt.Errorf("worker: the sidecar refuses this app: %w", err)
		case ctx.Err() != nil && c.idle():
			return nil
		case welcomed:
			backoff = backoffMin
			c.options.Logger.WarnContext(ctx, "the session broke off; opening it again", slog.Any("error", err))
		}
		// Jittered, so that the apps of a machine don't return together. What runs is
		// brought to its end also after ctx.
		pause := time.NewTimer(time.Duration(float64(backoff) * (0.5 + rand.Float64())))
		if c.idle() {
			select {
			case <-pause.C:
			case <-ctx.Done():
				pause.Stop()
				return nil
			}
		} else {
			<-pause.C
		}
		backoff = min(2*backoff, backoffMax)
	}
}

// session runs one stream. It returns nil when the app has said goodbye and
// returned everything.
func (c *client) session(ctx context.Context, service workerv1.WorkerServiceClient) (welcomed bool, err error) {
	streamCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stream, err := service.Session(streamCtx)
	if err != nil {
		return false, err
	}
	if err := stream.Send(c.hello()); err != nil {
		_, err = stream.Recv() // says why
		return false, err
	}
	first, err := stream.Recv()
	if err != nil {
		return false, err
	}
	welcome := first.GetWelcome()
	if welcome == nil {
		return false, status.Error(codes.InvalidArgument, "the sidecar did not answer hello with welcome")
	}
	c.giveUp(welcome.GetLost())
	received := make(chan error, 1)
	c.handlers.Go(func() { received <- c.receive(stream) })
	err = c.send(ctx, stream, received, time.Duration(max(welcome.GetHeartbeatMs(), 1))*time.Millisecond)
	cancel()
	return true, err
}

// hello introduces this instance and what it still works on or has to return.
func (c *client) hello() *workerv1.SessionRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	hello := &workerv1.Hello{
		InstanceId: c.instance, Version: c.options.Version, Labels: c.options.Labels,
		Kinds: slices.Sorted(maps.Keys(c.options.Handlers)), Window: uint32(c.options.Window),
	}
	for k := range c.running {
		hello.InFlight = append(hello.InFlight, &workerv1.TaskRef{TaskId: k.taskID, Lease: k.lease})
	}
	// What was sent may not have arrived; a result that did is known there. The oldest
	// are the likeliest to have.
	again := slices.Concat(c.sent...)
	if extra := len(again) + len(c.running) + len(c.results) - inFlightMax; extra > 0 {
		again = again[min(extra, len(again)):]
	}
	c.results = append(again, c.results...)
	c.sent, c.sentOf = nil, 0
	for _, result := range c.results {
		hello.InFlight = append(hello.InFlight, &workerv1.TaskRef{TaskId: result.GetTaskId(), Lease: result.GetLease()})
	}
	c.tell()
	return &workerv1.SessionRequest{Frame: &workerv1.SessionRequest_Hello{Hello: hello}}
}

// receive acts on the sidecar's frames until the stream ends.
func (c *client) receive(stream workerv1.WorkerService_SessionClient) error {
	for {
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		switch frame := response.GetFrame().(type) {
		case *workerv1.SessionResponse_Tasks:
			for _, task := range frame.Tasks.GetTasks() {
				c.start(task)
			}
		case *workerv1.SessionResponse_Cancel:
			c.cancel(key{frame.Cancel.GetTaskId(), frame.Cancel.GetLease()}, fmt.Errorf("the task was taken back: %s", frame.Cancel.GetReason()))
		default:
			// Heartbeats need no answer, and a drain is followed by the stream's end.
		}
	}
}

// send writes results and heartbeats until the stream ends, or nothing is left
// after ctx has.
func (c *client) send(ctx context.Context, stream workerv1.WorkerService_SessionClient, received <-chan error, heartbeat time.Duration) error {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	over := ctx.Done()
	for leaving := false; ; {
		select {
		case err := <-received:
			return err
		case <-over:
			over, leaving = nil, true
			goodbye := &workerv1.SessionRequest_Goodbye{Goodbye: &workerv1.Goodbye{Reason: "the app stops"}}
			if err := stream.Send(&workerv1.SessionRequest{Frame: goodbye}); err != nil {
				return <-received
			}
		case <-c.news:
			if err := c.flush(stream); err != nil {
				return <-received
			}
		case <-beat.C:
			if err := stream.Send(c.heartbeat()); err != nil {
				return <-received
			}
		}
		if leaving && c.idle() {
			if err := stream.CloseSend(); err != nil {
				return err
			}
			if err := <-received; !errors.Is(err, io.EOF) {
				return err
			}
			if !c.idle() {
				return errors.New("tasks came while the app said goodbye") // the next session takes them up
			}
			return nil
		}
	}
}

// flush sends all results there are, some at a time, and the progress told last.
func (c *client) flush(stream workerv1.WorkerService_SessionClient) error {
	for {
		results, frames := c.next()
		for _, frame := range frames {
			if err := stream.Send(frame); err != nil {
				return err
			}
		}
		if len(results) == 0 {
			return nil
		}
		frame := &workerv1.SessionRequest_Results{Results: &workerv1.Results{Results: results}}
		if err := stream.Send(&workerv1.SessionRequest{Frame: frame}); err != nil {
			return err
		}
	}
}

// next takes the results of one frame, and what else is to be said.
func (c *client) next() (results []*workerv1.Result, frames []*workerv1.SessionRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range slices.SortedFunc(maps.Keys(c.progress), func(a, b key) int { return int(a.taskID - b.taskID) }) {
		frames = append(frames, &workerv1.SessionRequest{Frame: &workerv1.SessionRequest_Progress{Progress: c.progress[k]}})
	}
	clear(c.progress)
	n, size := 0, 0
	for n < len(c.results) && n < resultsMax {
		size += len(c.results[n].GetOutput()) + len(c.results[n].GetError())
		if size > resultBytes && n > 0 {
			break
		}
		n++
	}
	results = c.results[:n:n]
	c.results = c.results[n:]
	if n > 0 {
		c.sent, c.sentOf = append(c.sent, results), c.sentOf+n
	}
	// A window of them at most can be unknown to the sidecar.
	for len(c.sent) > 0 && c.sentOf-len(c.sent[0]) >= c.options.Window {
		c.sentOf -= len(c.sent[0])
		c.sent[0] = nil
		c.sent = c.sent[1:]
	}
	return results, frames
}

func (c *client) heartbeat() *workerv1.SessionRequest {
	load := -1.0
	if c.options.LoadPercent != nil {
		load = min(max(c.options.LoadPercent(), 0), 100)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	beat := &workerv1.Heartbeat{InFlight: uint32(len(c.running)), LoadPercent: float32(load)}
	return &workerv1.SessionRequest{Frame: &workerv1.SessionRequest_Heartbeat{Heartbeat: beat}}
}

// start runs the handler of a task.
func (c *client) start(t *workerv1.Task) {
	k := key{t.GetId(), t.GetLease()}
	ctx, cancel := context.WithCancelCause(traced(t.GetHeaders()))
	stop := context.CancelFunc(func() {})
	task := &Task{
		ID: t.GetId(), Kind: t.GetKind(), Queue: t.GetQueue(), Lease: t.GetLease(), Args: t.GetArgs(), Headers: t.GetHeaders(),
		Batch: t.GetBatch(), Attempt: int(t.GetAttempt()), MaxAttempts: int(t.GetMaxAttempts()), Priority: int(t.GetPriority()),
		CreatedAt: time.UnixMicro(t.GetCreatedAtUs()), ScheduledAt: time.UnixMicro(t.GetScheduledAtUs()),
		progress: func(percent float64, message string) { c.tellProgress(k, percent, message) },
	}
	if t.GetDeadlineUs() > 0 {
		task.Deadline = time.UnixMicro(t.GetDeadlineUs())
		ctx, stop = context.WithDeadline(ctx, task.Deadline)
	}
	c.mu.Lock()
	c.running[k] = cancel
	c.mu.Unlock()
	c.handlers.Go(func() {
		defer stop()
		defer cancel(nil)
		output, err := c.handle(ctx, task)
		c.finish(k, resultOf(task, output, err))
	})
}

// handle calls the handler, and makes a panic an error.
func (c *client) handle(ctx context.Context, task *Task) (output any, err error) {
	defer func() {
		if recovered := recover(); recovered != nil {
			c.options.Logger.ErrorContext(ctx, "handler panicked", slog.String("kind", task.Kind), slog.Int64("task_id", task.ID),
				slog.Any("panic", recovered), slog.String("stack", string(debug.Stack())))
			output, err = nil, fmt.Errorf("the handler panicked: %v", recovered)
		}
	}()
	handler := c.options.Handlers[task.Kind]
	if handler == nil {
		return nil, errUnknownKind
	}
	return handler(ctx, task)
}

// finish queues the result of a task, unless it was taken away.
func (c *client) finish(k key, result *workerv1.Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.running[k]; !ok {
		return
	}
	delete(c.running, k)
	delete(c.progress, k)
	c.results = append(c.results, result)
	c.tell()
}

// cancel ends a handler whose task was taken away.
func (c *client) cancel(k key, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cancel, ok := c.running[k]; ok {
		delete(c.running, k)
		delete(c.progress, k)
		cancel(cause)
		c.tell()
	}
}

// giveUp ends the handlers of tasks that the sidecar no longer knows. A result
// that is to be sent stays: its lease may still hold.
func (c *client) giveUp(lost []*workerv1.TaskRef) {
	for _, ref := range lost {
		c.cancel(key{ref.GetTaskId(), ref.GetLease()}, errors.New("the task was lost while the session was broken"))
	}
}

// abandon ends all handlers.
func (c *client) abandon(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cancel := range c.running {
		cancel(cause)
	}
	clear(c.running)
}

func (c *client) tellProgress(k key, percent float64, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.running[k]; !ok {
		return
	}
	c.progress[k] = &workerv1.Progress{
		TaskId: k.taskID, Lease: k.lease, Percent: float32(min(max(percent, 0), 100)), Message: strings.ToValidUTF8(message, "\uFFFD"),
	}
	c.tell()
}

// idle reports whether nothing runs and nothing is to be returned.
func (c *client) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.running) == 0 && len(c.results) == 0
}

func (c *client) tell() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}
