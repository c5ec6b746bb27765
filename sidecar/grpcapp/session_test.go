package grpcapp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/sched-sidecar/sched/jobs"
	workerv1 "github.com/sched-sidecar/sched/proto/sched/worker/v1"
	"github.com/sched-sidecar/sched/sidecar/dispatch"
	"github.com/sched-sidecar/sched/sidecar/grpcapp"
	"github.com/sched-sidecar/sched/worker"
)

const patience = time.Minute

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a dispatcher that serves on loopback.
type bench struct {
	*grpcapp.Dispatcher
	addr     string
	capacity atomic.Int64
	load     atomic.Int64
}

func setup(t *testing.T, change ...func(*grpcapp.Config)) *bench {
	t.Helper()
	b := &bench{}
	config := grpcapp.Config{
		Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler), Heartbeat: 20 * time.Second, Grace: patience,
		WorkerID: func() string { return "w1" }, OnCapacity: func(n int) { b.capacity.Store(int64(n)) },
		OnLoad: func(percent float64) { b.load.Store(int64(percent)) },
	}
	for _, c := range change {
		c(&config)
	}
	d := grpcapp.New(config)
	b.Dispatcher = d
	server, err := d.Listen(t.Context())
	require.NoError(t, err)
	b.addr = server.Addr()
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-served)
	})
	return b
}

// app runs a worker client until the test ends, or until stop is called.
func (b *bench) app(t *testing.T, options worker.Options) (stop func() error) {
	t.Helper()
	before := b.capacity.Load()
	options.Target = b.addr
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- worker.Run(ctx, options) }()
	stop = sync.OnceValue(func() error { cancel(); return <-ran })
	t.Cleanup(func() { _ = stop() })
	require.Eventually(t, func() bool { return b.capacity.Load() > before }, patience, time.Millisecond)
	return stop
}

// raw opens a stream of the protocol itself.
func (b *bench) raw(t *testing.T) grpc.BidiStreamingClient[workerv1.SessionRequest, workerv1.SessionResponse] {
	t.Helper()
	conn, err := grpc.NewClient(b.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	stream, err := workerv1.NewWorkerServiceClient(conn).Session(ctx)
	require.NoError(t, err)
	return stream
}

func hello(instance string, window uint32, inFlight ...*workerv1.TaskRef) *workerv1.SessionRequest {
	return &workerv1.SessionRequest{Frame: &workerv1.SessionRequest_Hello{
		Hello: &workerv1.Hello{InstanceId: instance, Window: window, InFlight: inFlight},
	}}
}

func results(r ...*workerv1.Result) *workerv1.SessionRequest {
	return &workerv1.SessionRequest{Frame: &workerv1.SessionRequest_Results{Results: &workerv1.Results{Results: r}}}
}

// welcomed says hello and takes in the welcome.
func welcomed(t *testing.T, stream grpc.BidiStreamingClient[workerv1.SessionRequest, workerv1.SessionResponse], first *workerv1.SessionRequest) *workerv1.Welcome {
	t.Helper()
	require.NoError(t, stream.Send(first))
	response, err := stream.Recv()
	require.NoError(t, err)
	require.NotNil(t, response.GetWelcome())
	return response.GetWelcome()
}

// tasks takes in frames until n tasks have come.
func tasks(t *testing.T, stream grpc.BidiStreamingClient[workerv1.SessionRequest, workerv1.SessionResponse], n int) []*workerv1.Task {
	t.Helper()
	var got []*workerv1.Task
	for len(got) < n {
		response, err := stream.Recv()
		require.NoError(t, err)
		got = append(got, response.GetTasks().GetTasks()...)
	}
	return got
}

func task(id int64, kind string) *dispatch.Task {
	return &dispatch.Task{
		ID: id, Kind: kind, Queue: "default", Attempt: 1, MaxAttempts: 25, Priority: 1, Args: json.RawMessage(`{"n":1}`),
		Lease: jobs.Lease{WorkerID: "w1", AttemptedAt: time.UnixMicro(1_700_000_000_000_000 + id)},
	}
}

// begin dispatches in the background.
func (b *bench) begin(ctx context.Context, task *dispatch.Task) <-chan jobs.Outcome {
	outcome := make(chan jobs.Outcome, 1)
	go func() { outcome <- b.Dispatch(ctx, task) }()
	return outcome
}

func TestOutcomesOfHandlers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.app(t, worker.Options{Handlers: map[string]worker.Handler{
		"plain":  func(context.Context, *worker.Task) (any, error) { return nil, nil },
		"output": func(_ context.Context, task *worker.Task) (any, error) { return task.Args, nil },
		"fails":  func(context.Context, *worker.Task) (any, error) { return nil, errors.New("no luck") },
		"later": func(context.Context, *worker.Task) (any, error) {
			return nil, worker.RetryIn(time.Minute, errors.New("later"))
		},
		"snooze": func(context.Context, *worker.Task) (any, error) {
			return nil, fmt.Errorf("wrapped: %w", worker.Snooze(3*time.Second, errors.New("busy")))
		},
		"hopeless": func(context.Context, *worker.Task) (any, error) { return nil, worker.Cancel(errors.New("gone")) },
		"panics":   func(context.Context, *worker.Task) (any, error) { panic("oops") },
		"broken":   func(context.Context, *worker.Task) (any, error) { return json.RawMessage(`{"a":"\u0000"}`), nil },
	}})
	for i, c := range []struct {
		kind string
		want jobs.Outcome
	}{
		{"plain", jobs.Outcome{Kind: jobs.OutcomeComplete}},
		{"output", jobs.Outcome{Kind: jobs.OutcomeComplete, Output: json.RawMessage(`{"n":1}`)}},
		{"fails", jobs.Outcome{Kind: jobs.OutcomeRetry, Error: "no luck"}},
		{"later", jobs.Outcome{Kind: jobs.OutcomeRetry, Error: "later", Delay: time.Minute}},
		{"snooze", jobs.Outcome{Kind: jobs.OutcomeSnooze, PauseKind: true, Error: "wrapped: busy", Delay: 3 * time.Second}},
		{"hopeless", jobs.Outcome{Kind: jobs.OutcomeCancel, Error: "gone"}},
		{"panics", jobs.Outcome{Kind: jobs.OutcomeRetry, Error: "the handler panicked: oops"}},
		{"nobody", jobs.Outcome{Kind: jobs.OutcomeHandBack, UnknownKind: true, Error: `no session of the app has a handler for kind "nobody"`}},
	} {
		require.Equal(t, c.want, b.Dispatch(t.Context(), task(int64(i+1), c.kind)), c.kind)
	}
	got := b.Dispatch(t.Context(), task(99, "broken"))
	require.Equal(t, jobs.OutcomeCancel, got.Kind)
	require.Contains(t, got.Error, "its output cannot be stored")
	require.Empty(t, b.Running())
}

func TestNoSessionHandsBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.ErrorContains(t, b.Probe(t.Context()), "no app has an open session")
	got := b.Dispatch(t.Context(), task(1, "plain"))
	require.Equal(t, jobs.OutcomeHandBack, got.Kind)
	require.True(t, got.AppDown)
	stop := b.app(t, worker.Options{Handlers: map[string]worker.Handler{"plain": func(context.Context, *worker.Task) (any, error) { return nil, nil }}})
	require.NoError(t, b.Probe(t.Context()))
	require.NoError(t, stop())
	require.Eventually(t, func() bool { return b.Probe(t.Context()) != nil && b.capacity.Load() == 0 }, patience, time.Millisecond)
}

func TestWindowIsNeverExceeded(t *testing.T) {
	t.Parallel()
	const window, total = 4, 200
	b := setup(t)
	var now, most atomic.Int64
	handler := func(context.Context, *worker.Task) (any, error) {
		n := now.Add(1)
		defer now.Add(-1)
		for {
			seen := most.Load()
			if n <= seen || most.CompareAndSwap(seen, n) {
				break
			}
		}
		return nil, nil
	}
	b.app(t, worker.Options{Window: window, Handlers: map[string]worker.Handler{"k": handler}})
	var all sync.WaitGroup
	for i := range total {
		all.Go(func() {
			require.Equal(t, jobs.OutcomeComplete, b.Dispatch(context.Background(), task(int64(i+1), "k")).Kind)
		})
	}
	all.Wait()
	require.LessOrEqual(t, most.Load(), int64(window))
}

func TestLeastBusySessionFirst(t *testing.T) {
	t.Parallel()
	b := setup(t)
	small, large := b.raw(t), b.raw(t)
	welcomed(t, small, hello("small", 2))
	welcomed(t, large, hello("large", 6))
	require.Eventually(t, func() bool { return b.capacity.Load() == 8 }, patience, time.Millisecond)
	for i := range int64(8) {
		b.begin(t.Context(), task(i+1, "k"))
	}
	require.Len(t, tasks(t, small, 2), 2)
	require.Len(t, tasks(t, large, 6), 6)
}

func TestCancelReachesTheHandler(t *testing.T) {
	t.Parallel()
	b := setup(t)
	begun, ended := make(chan struct{}), make(chan error, 1)
	b.app(t, worker.Options{Handlers: map[string]worker.Handler{"slow": func(ctx context.Context, task *worker.Task) (any, error) {
		task.Progress(40, "half way")
		close(begun)
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil, nil
	}}})
	ctx, cancel := context.WithCancelCause(t.Context())
	outcome := b.begin(ctx, task(1, "slow"))
	<-begun
	require.Eventually(t, func() bool {
		running := b.Running()
		return len(running) == 1 && running[0].Percent == 40 && running[0].Message == "half way"
	}, patience, time.Millisecond)
	cancel(dispatch.ErrCancelled)
	require.Equal(t, jobs.OutcomeCancel, (<-outcome).Kind)
	require.ErrorContains(t, <-ended, "REASON_CANCELLED")
}

func TestTaskOutlivesItsStream(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.raw(t)
	welcomed(t, first, hello("app", 10))
	outcome, forgotten := b.begin(t.Context(), task(1, "k")), b.begin(t.Context(), task(2, "k"))
	got := tasks(t, first, 2)
	require.NoError(t, first.CloseSend())
	_, err := first.Recv()
	require.Error(t, err)

	// It comes back, names one of the two and a stranger, and returns the one.
	lease := map[int64]string{got[0].GetId(): got[0].GetLease(), got[1].GetId(): got[1].GetLease()}
	second := b.raw(t)
	welcome := welcomed(t, second, hello("app", 10,
		&workerv1.TaskRef{TaskId: 1, Lease: lease[1]}, &workerv1.TaskRef{TaskId: 77, Lease: "w9.1"}))
	require.Len(t, welcome.GetLost(), 1)
	require.Equal(t, int64(77), welcome.GetLost()[0].GetTaskId())
	require.Equal(t, jobs.Outcome{Kind: jobs.OutcomeRetry, Error: "the app connected again without this task"}, <-forgotten)
	require.NoError(t, second.Send(results(&workerv1.Result{TaskId: 1, Lease: lease[1], Outcome: workerv1.Outcome_OUTCOME_COMPLETE})))
	require.Equal(t, jobs.OutcomeComplete, (<-outcome).Kind)
}

// A draining sidecar takes nobody new, but an app back whose stream broke while it
// worked on something.
func TestDrainingSidecarTakesAnAppBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.raw(t)
	welcomed(t, first, hello("app", 10))
	outcome := b.begin(t.Context(), task(1, "k"))
	lease := tasks(t, first, 1)[0].GetLease()
	b.Drain(time.Now().Add(time.Minute))
	require.NoError(t, first.CloseSend())
	for err := error(nil); err == nil; {
		_, err = first.Recv()
	}

	stranger := b.raw(t)
	require.NoError(t, stranger.Send(hello("another", 10)))
	_, err := stranger.Recv()
	require.Error(t, err)
	second := b.raw(t)
	welcome := welcomed(t, second, hello("app", 10, &workerv1.TaskRef{TaskId: 1, Lease: lease}))
	require.Empty(t, welcome.GetLost())
	frame, err := second.Recv()
	require.NoError(t, err)
	require.NotNil(t, frame.GetDrain(), "and tells it again")
	require.NoError(t, second.Send(results(&workerv1.Result{TaskId: 1, Lease: lease, Outcome: workerv1.Outcome_OUTCOME_COMPLETE})))
	require.Equal(t, jobs.OutcomeComplete, (<-outcome).Kind)
}

func TestNewerSessionReplacesTheOld(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.raw(t)
	welcomed(t, first, hello("app", 10))
	outcome := b.begin(t.Context(), task(1, "k"))
	got := tasks(t, first, 1)
	second := b.raw(t)
	welcome := welcomed(t, second, hello("app", 10, &workerv1.TaskRef{TaskId: 1, Lease: got[0].GetLease()}))
	require.Empty(t, welcome.GetLost())
	_, err := first.Recv()
	require.Equal(t, codes.Aborted, status.Code(err))
	require.NoError(t, second.Send(results(&workerv1.Result{TaskId: 1, Lease: got[0].GetLease(), Outcome: workerv1.Outcome_OUTCOME_COMPLETE})))
	require.Equal(t, jobs.OutcomeComplete, (<-outcome).Kind)
}

func TestAppThatStaysAwayFailsItsTasks(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *grpcapp.Config) { c.Grace = 50 * time.Millisecond })
	stream := b.raw(t)
	welcomed(t, stream, hello("app", 10))
	outcome := b.begin(t.Context(), task(1, "k"))
	tasks(t, stream, 1)
	require.NoError(t, stream.CloseSend())
	got := <-outcome
	require.Equal(t, jobs.OutcomeRetry, got.Kind)
	require.Contains(t, got.Error, "did not come back in time")
}

func TestProtocolErrorEndsItsStreamOnly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	good := b.raw(t)
	welcomed(t, good, hello("good", 10))
	for name, frames := range map[string][]*workerv1.SessionRequest{
		"no hello":        {results()},
		"empty frame":     {{}},
		"no instance":     {hello("", 10)},
		"odd instance":    {hello("a b", 10)},
		"no window":       {hello("x", 0)},
		"large window":    {hello("x", 5001)},
		"hello twice":     {hello("x", 1), hello("x", 1)},
		"unknown outcome": {hello("x", 1), results(&workerv1.Result{TaskId: 1, Lease: "w1.1", Outcome: 42})},
		"bad lease":       {hello("x", 1), results(&workerv1.Result{TaskId: 1, Lease: "x", Outcome: workerv1.Outcome_OUTCOME_COMPLETE})},
		"bad progress": {hello("x", 1), {Frame: &workerv1.SessionRequest_Progress{
			Progress: &workerv1.Progress{TaskId: 1, Lease: "w1.1", Percent: 101},
		}}},
	} {
		stream := b.raw(t)
		for _, frame := range frames {
			_ = stream.Send(frame) // fails once the stream has ended
		}
		var err error
		for err == nil {
			_, err = stream.Recv()
		}
		require.Equal(t, codes.InvalidArgument, status.Code(err), "%s: %v", name, err)
	}
	outcome := b.begin(t.Context(), task(1, "k"))
	got := tasks(t, good, 1)
	require.NoError(t, good.Send(results(&workerv1.Result{TaskId: 1, Lease: got[0].GetLease(), Outcome: workerv1.Outcome_OUTCOME_COMPLETE})))
	require.Equal(t, jobs.OutcomeComplete, (<-outcome).Kind)
}

// late records what is settled for attempts that the dispatcher doesn't know.
type late struct{ settled chan int64 }

func (l late) SettleAccepted(_ context.Context, taskID int64, _ jobs.Lease, _ jobs.Outcome) error {
	l.settled <- taskID
	return nil
}

func TestResultOfAnUnknownAttemptIsSettledByItsLease(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := late{make(chan int64, 1)}
	b.SettleLate(l)
	stream := b.raw(t)
	welcomed(t, stream, hello("app", 10))
	require.NoError(t, stream.Send(results(&workerv1.Result{TaskId: 5, Lease: "wold.1700000000000000", Outcome: workerv1.Outcome_OUTCOME_COMPLETE})))
	require.Equal(t, int64(5), <-l.settled)
}

func TestGoodbyeLetsTasksFinish(t *testing.T) {
	t.Parallel()
	b := setup(t)
	begun, release := make(chan struct{}), make(chan struct{})
	stop := b.app(t, worker.Options{Handlers: map[string]worker.Handler{"slow": func(context.Context, *worker.Task) (any, error) {
		close(begun)
		<-release
		return nil, nil
	}}})
	outcome := b.begin(t.Context(), task(1, "slow"))
	<-begun
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	require.Eventually(t, func() bool { return b.capacity.Load() == 0 }, patience, time.Millisecond)
	close(release)
	require.Equal(t, jobs.OutcomeComplete, (<-outcome).Kind)
	require.NoError(t, <-stopped)
}

func TestLoadAndHealthAreReported(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *grpcapp.Config) { c.Heartbeat = 20 * time.Millisecond })
	b.app(t, worker.Options{
		Handlers:    map[string]worker.Handler{"k": func(context.Context, *worker.Task) (any, error) { return nil, nil }},
		LoadPercent: func() float64 { return 73 },
	})
	require.Eventually(t, func() bool { return b.load.Load() == 73 }, patience, time.Millisecond)
	conn, err := grpc.NewClient(b.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	answer, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{Service: "sched.worker.v1.WorkerService"})
	require.NoError(t, err)
	require.Equal(t, healthv1.HealthCheckResponse_SERVING, answer.GetStatus())
}
