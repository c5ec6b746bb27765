package grpcapp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/sched-sidecar/sched/jobs"
	workerv1 "github.com/sched-sidecar/sched/proto/sched/worker/v1"
	"github.com/sched-sidecar/sched/sidecar/dispatch"
)

// scripted is a stream on which an app says what a script holds, whatever it is
// told. The rest of the script follows the welcome, or the first tasks.
type scripted struct {
	grpc.ServerStream

	ctx       context.Context
	script    *bufio.Reader
	frames    int
	onWelcome func()
	forTasks  bool // the app speaks on once it has tasks
	speak     sync.Once
	spoken    chan struct{}
}

func (s *scripted) Context() context.Context { return s.ctx }

// Recv is the script's next frame; its end, and whatever is none, ends the stream.
func (s *scripted) Recv() (*workerv1.SessionRequest, error) {
	if s.frames++; s.frames > 1 {
		select {
		case <-s.spoken:
		case <-s.ctx.Done():
			return nil, s.ctx.Err()
		}
	}
	request := &workerv1.SessionRequest{}
	if err := protodelim.UnmarshalFrom(s.script, request); err != nil {
		return nil, io.EOF
	}
	return request, nil
}

func (s *scripted) Send(response *workerv1.SessionResponse) error {
	welcome := response.GetWelcome() != nil
	if welcome {
		s.onWelcome()
	}
	if welcome && !s.forTasks || response.GetTasks() != nil {
		s.speak.Do(func() { close(s.spoken) })
	}
	return nil
}

// scriptOf is what a fuzzer starts from.
func scriptOf(tb testing.TB, frames ...*workerv1.SessionRequest) []byte {
	tb.Helper()
	var script bytes.Buffer
	for _, frame := range frames {
		_, err := protodelim.MarshalTo(&script, frame)
		require.NoError(tb, err)
	}
	return script.Bytes()
}

const fuzzTasks = 3

func fuzzTask(id int64) *dispatch.Task {
	return &dispatch.Task{ID: id, Kind: "k", Args: []byte(`{}`), Lease: jobs.Lease{WorkerID: "w1", AttemptedAt: time.UnixMicro(id)}}
}

// FuzzSession has an app say anything. Nothing of it breaks the sidecar: the stream
// ends in order or with the app's fault named, each attempt that the app held ends
// exactly once, and the next session gets tasks as ever.
func FuzzSession(f *testing.F) {
	hello := &workerv1.SessionRequest{Frame: &workerv1.SessionRequest_Hello{Hello: &workerv1.Hello{InstanceId: "a", Window: 2}}}
	result := func(id int64, outcome workerv1.Outcome, output string) *workerv1.SessionRequest {
		return &workerv1.SessionRequest{Frame: &workerv1.SessionRequest_Results{Results: &workerv1.Results{Results: []*workerv1.Result{
			{TaskId: id, Lease: fuzzTask(id).Lease.String(), Outcome: outcome, Output: []byte(output), DelayMs: 5},
		}}}}
	}
	goodbye := &workerv1.SessionRequest{Frame: &workerv1.SessionRequest_Goodbye{Goodbye: &workerv1.Goodbye{}}}
	progress := &workerv1.SessionRequest{Frame: &workerv1.SessionRequest_Progress{Progress: &workerv1.Progress{
		TaskId: 1, Lease: fuzzTask(1).Lease.String(), Percent: 50, Message: "half",
	}}}
	beat := &workerv1.SessionRequest{Frame: &workerv1.SessionRequest_Heartbeat{Heartbeat: &workerv1.Heartbeat{}}}
	lost := &workerv1.SessionRequest{Frame: &workerv1.SessionRequest_Hello{Hello: &workerv1.Hello{
		InstanceId: "b", Window: 1, Kinds: []string{"k"}, InFlight: []*workerv1.TaskRef{{TaskId: 9, Lease: "w0.1"}},
	}}}
	for _, frames := range [][]*workerv1.SessionRequest{
		nil,
		{hello},
		{hello, hello},
		{goodbye},
		{{}},
		{hello, {}},
		{hello, beat, progress, result(1, workerv1.Outcome_OUTCOME_COMPLETE, `{"n": 1}`), result(2, workerv1.Outcome_OUTCOME_RETRY, ""), goodbye},
		{hello, result(1, workerv1.Outcome_OUTCOME_COMPLETE, "no JSON"), result(1, workerv1.Outcome_OUTCOME_COMPLETE, "")},
		{hello, result(1, workerv1.Outcome_OUTCOME_SNOOZE, ""), result(2, workerv1.Outcome_OUTCOME_CANCEL, ""), result(3, workerv1.Outcome_OUTCOME_UNKNOWN_KIND, "")},
		{hello, result(77, workerv1.Outcome_OUTCOME_COMPLETE, ""), result(1, 99, "")},
		{lost, goodbye, result(1, workerv1.Outcome_OUTCOME_COMPLETE, "")},
	} {
		f.Add(scriptOf(f, frames...))
	}
	f.Add([]byte("\xff\xff\xff\xff\xff\xff"))

	f.Fuzz(func(t *testing.T, script []byte) {
		d := New(Config{
			Logger: slog.New(slog.DiscardHandler), Heartbeat: time.Hour, Grace: time.Hour,
			WorkerID: func() string { return "w1" }, OnCapacity: func(int) {}, OnLoad: func(float64) {},
		})
		var ended [fuzzTasks]atomic.Int64
		say := func(script []byte, forTasks bool, onWelcome func()) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel() // a stream's context ends with it
			return d.Session(&scripted{
				ctx: ctx, script: bufio.NewReader(bytes.NewReader(script)), spoken: make(chan struct{}), forTasks: forTasks, onWelcome: onWelcome,
			})
		}
		started := false
		err := say(script, false, func() {
			started = true
			for i := range ended {
				d.Start(fuzzTask(int64(i+1)), func(jobs.Outcome) { ended[i].Add(1) })
			}
		})
		if err != nil && !errors.Is(err, io.EOF) { // the end before a hello
			require.Contains(t, []codes.Code{codes.InvalidArgument, codes.ResourceExhausted}, status.Code(err), err.Error())
		}

		finished := make(chan jobs.Outcome, 1)
		const next = 1000
		after := scriptOf(t, &workerv1.SessionRequest{Frame: &workerv1.SessionRequest_Hello{Hello: &workerv1.Hello{InstanceId: "next", Window: 10}}},
			result(next, workerv1.Outcome_OUTCOME_COMPLETE, ""))
		require.NoError(t, say(after, true, func() { d.Start(fuzzTask(next), func(o jobs.Outcome) { finished <- o }) }))
		require.Equal(t, jobs.OutcomeComplete, (<-finished).Kind)

		d.shut()
		d.background.Wait()
		for i := range ended {
			want := int64(0)
			if started {
				want = 1
			}
			require.Equal(t, want, ended[i].Load(), "ends of task %d", i+1)
		}
	})
}
