package grpcapp

import (
	"errors"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	workerv1 "github.com/sched-sidecar/sched/proto/sched/worker/v1"
)

// Reasons for which a stream ends that is not its app's fault.
var (
	errReplaced = status.Error(codes.Aborted, "the same instance_id has opened a newer session")
	errStopping = status.Error(codes.Unavailable, "the sidecar is stopping")
	errSilent   = status.Error(codes.DeadlineExceeded, "no heartbeat for three intervals")
	errNoHello  = status.Error(codes.DeadlineExceeded, "no hello came")
)

// silentBeats is after how many heartbeat intervals without a frame an app is gone.
const silentBeats = 3

// stream is what a session needs of the transport.
type stream = grpc.BidiStreamingServer[workerv1.SessionRequest, workerv1.SessionResponse]

// session is one app's stream. All but heard is guarded by the dispatcher's mu.
type session struct {
	instance string
	window   int
	kinds    map[string]struct{} // nil: all

	held    map[attemptKey]*attempt
	queued  []*attempt // to be written
	cancels []*workerv1.Cancel
	drain   *workerv1.Drain
	leaving bool // takes no more tasks

	news chan struct{} // capacity 1: something is to be written
	end  chan struct{} // closed by leave
	why  error         // set before end is closed

	heard atomic.Int64 // when a frame came last, in nanoseconds since 1970
}

// takes reports whether the session may get tasks of the kind.
func (s *session) takes(kind string) bool {
	if s.leaving {
		return false
	}
	if s.kinds == nil {
		return true
	}
	_, ok := s.kinds[kind]
	return ok
}

// give queues an attempt for writing.
func (s *session) give(a *attempt) {
	a.session = s
	s.held[a.key] = a
	s.queued = append(s.queued, a)
	s.tell()
}

// drop forgets an attempt that is over.
func (s *session) drop(a *attempt) {
	delete(s.held, a.key)
	a.session = nil
}

func (s *session) cancel(key attemptKey, reason workerv1.Reason) {
	s.cancels = append(s.cancels, &workerv1.Cancel{TaskId: key.taskID, Lease: key.lease, Reason: reason})
	s.tell()
}

// leave ends the stream for a reason, once.
func (s *session) leave(why error) {
	s.leaving = true
	select {
	case <-s.end:
	default:
		s.why = why
		close(s.end)
	}
}

func (s *session) tell() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// Session serves one stream; see the proto.
func (d *Dispatcher) Session(stream stream) error {
	s, hello, err := d.greet(stream)
	if err != nil {
		return err
	}
	inFlight := make([]attemptKey, len(hello.GetInFlight()))
	for i, ref := range hello.GetInFlight() {
		inFlight[i] = attemptKey{ref.GetTaskId(), ref.GetLease()}
	}
	lost, err := d.join(s, inFlight)
	if err != nil {
		return err
	}
	defer d.part(s)
	d.config.Logger.InfoContext(stream.Context(), "the app opened a session", slog.String("instance", s.instance),
		slog.String("version", hello.GetVersion()), slog.Int("window", s.window), slog.Int("in_flight", len(inFlight)-len(lost)))
	err = d.converse(stream, s, lost)
	d.config.Logger.InfoContext(stream.Context(), "the app's session ended", slog.String("instance", s.instance), slog.Any("reason", err))
	return err
}

// converse reads and writes until the stream ends. Reader and writer end with the
// stream's own context, which ends when this returns: an app that doesn't read any
// more keeps neither of them, nor this from finding it silent.
func (d *Dispatcher) converse(stream stream, s *session, lost []attemptKey) error {
	received, sent := make(chan error, 1), make(chan error, 1)
	d.background.Go(func() { received <- d.receive(stream, s) })
	d.background.Go(func() { sent <- d.send(stream, s, lost) })
	look := time.NewTicker(d.config.Heartbeat)
	defer look.Stop()
	for {
		select {
		case err := <-received:
			return err // nil: the app is done
		case err := <-sent:
			return err
		case <-s.end:
			return s.why
		case <-stream.Context().Done():
			return nil
		case <-look.C:
			if time.Since(time.Unix(0, s.heard.Load())) > silentBeats*d.config.Heartbeat {
				return errSilent
			}
		}
	}
}

// greet reads and checks the first frame.
func (d *Dispatcher) greet(stream stream) (*session, *workerv1.Hello, error) {
	request, err := d.first(stream)
	if err != nil {
		return nil, nil, err
	}
	hello := request.GetHello()
	if hello == nil {
		return nil, nil, protocolError("the first frame must be hello")
	}
	if err := checkHello(hello); err != nil {
		return nil, nil, err
	}
	s := &session{
		instance: hello.GetInstanceId(), window: int(hello.GetWindow()),
		held: map[attemptKey]*attempt{}, news: make(chan struct{}, 1), end: make(chan struct{}),
	}
	if len(hello.GetKinds()) > 0 {
		s.kinds = make(map[string]struct{}, len(hello.GetKinds()))
		for _, kind := range hello.GetKinds() {
			s.kinds[kind] = struct{}{}
		}
	}
	s.heard.Store(time.Now().UnixNano())
	return s, hello, nil
}

// first receives the first frame, which has to come soon.
func (d *Dispatcher) first(stream stream) (*workerv1.SessionRequest, error) {
	var request *workerv1.SessionRequest
	received := make(chan error, 1)
	d.background.Go(func() {
		var err error
		request, err = stream.Recv()
		received <- err
	})
	timer := time.NewTimer(d.config.HelloTimeout)
	defer timer.Stop()
	select {
	case err := <-received:
		return request, err
	case <-timer.C:
		return nil, errNoHello // the call ends with the stream
	}
}

func checkHello(hello *workerv1.Hello) error {
	switch {
	case !printable(hello.GetInstanceId(), 1, nameMax):
		return protocolError("hello.instance_id must have 1 to %d printable ASCII characters", nameMax)
	case len(hello.GetVersion()) > nameMax:
		return protocolError("hello.version has %d bytes; at most %d are allowed", len(hello.GetVersion()), nameMax)
	case hello.GetWindow() < 1 || hello.GetWindow() > windowMax:
		return protocolError("hello.window is %d; it must be 1 to %d", hello.GetWindow(), windowMax)
	case len(hello.GetKinds()) > kindsMax:
		return protocolError("hello.kinds has %d entries; at most %d are allowed (none: all kinds)", len(hello.GetKinds()), kindsMax)
	case len(hello.GetLabels()) > labelsMax:
		return protocolError("hello.labels has %d entries; at most %d are allowed", len(hello.GetLabels()), labelsMax)
	case len(hello.GetInFlight()) > windowMax:
		return protocolError("hello.in_flight has %d entries; at most %d are allowed", len(hello.GetInFlight()), windowMax)
	}
	for key, value := range hello.GetLabels() {
		if len(key) > labelMax || len(value) > labelMax {
			return protocolError("hello.labels has an entry of more than %d bytes", labelMax)
		}
	}
	return nil
}

func printable(text string, least, most int) bool {
	if len(text) < least || len(text) > most {
		return false
	}
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// receive acts on the app's frames until the stream ends.
func (d *Dispatcher) receive(stream stream, s *session) error {
	for {
		request, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		s.heard.Store(time.Now().UnixNano())
		switch frame := request.GetFrame().(type) {
		case *workerv1.SessionRequest_Results:
			err = d.results(stream.Context(), s, frame.Results.GetResults())
		case *workerv1.SessionRequest_Heartbeat:
			if load := float64(frame.Heartbeat.GetLoadPercent()); load >= 0 && load <= 100 {
				d.config.OnLoad(load)
			}
		case *workerv1.SessionRequest_Progress:
			err = d.progress(s, frame.Progress)
		case *workerv1.SessionRequest_Goodbye:
			d.goodbye(s)
		case *workerv1.SessionRequest_Hello:
			err = protocolError("hello was said before")
		default:
			err = protocolError("the frame is empty, or of a newer protocol")
		}
		if err != nil {
			return err
		}
	}
}

// goodbye stops giving tasks to the session; what was not written goes to others.
func (d *Dispatcher) goodbye(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.leaving = true
	for _, a := range s.queued {
		if a.session == s && !a.written {
			s.drop(a)
			d.waiting = append(d.waiting, a)
		}
	}
	s.queued = nil
	d.count()
	d.fill()
}

// send writes what there is to say until the stream's context ends.
func (d *Dispatcher) send(stream stream, s *session, lost []attemptKey) error {
	welcome := &workerv1.Welcome{WorkerId: d.config.WorkerID(), HeartbeatMs: uint32(d.config.Heartbeat.Milliseconds())}
	for _, key := range lost {
		welcome.Lost = append(welcome.Lost, &workerv1.TaskRef{TaskId: key.taskID, Lease: key.lease})
	}
	if err := stream.Send(&workerv1.SessionResponse{Frame: &workerv1.SessionResponse_Welcome{Welcome: welcome}}); err != nil {
		return err
	}
	beat := time.NewTicker(d.config.Heartbeat)
	defer beat.Stop()
	for {
		select {
		case <-stream.Context().Done():
			return nil
		case <-s.news:
			if err := d.write(stream, s); err != nil {
				return err
			}
		case <-beat.C:
			d.mu.Lock()
			held := len(s.held)
			d.mu.Unlock()
			frame := &workerv1.SessionResponse_Heartbeat{Heartbeat: &workerv1.Heartbeat{InFlight: uint32(held), LoadPercent: -1}}
			if err := stream.Send(&workerv1.SessionResponse{Frame: frame}); err != nil {
				return err
			}
		}
	}
}

// write sends what is queued: cancels first, then tasks, some at a time.
func (d *Dispatcher) write(stream stream, s *session) error {
	for {
		d.mu.Lock()
		cancels, drain := s.cancels, s.drain
		s.cancels, s.drain = nil, nil
		tasks := d.nextTasks(s)
		d.mu.Unlock()
		for _, cancel := range cancels {
			if err := stream.Send(&workerv1.SessionResponse{Frame: &workerv1.SessionResponse_Cancel{Cancel: cancel}}); err != nil {
				return err
			}
		}
		if drain != nil {
			if err := stream.Send(&workerv1.SessionResponse{Frame: &workerv1.SessionResponse_Drain{Drain: drain}}); err != nil {
				return err
			}
		}
		if len(tasks) == 0 {
			return nil
		}
		frame := &workerv1.SessionResponse_Tasks{Tasks: &workerv1.Tasks{Tasks: tasks}}
		if err := stream.Send(&workerv1.SessionResponse{Frame: frame}); err != nil {
			return err
		}
	}
}

// nextTasks takes queued attempts for one frame. From here on they count as
// written: they may reach the app whatever the stream reports. Under d.mu.
func (d *Dispatcher) nextTasks(s *session) []*workerv1.Task {
	var tasks []*workerv1.Task
	size, i := 0, 0
	for ; i < len(s.queued) && len(tasks) < frameTasks; i++ {
		a := s.queued[i]
		if a.session != s || a.written {
			continue // over meanwhile
		}
		size += len(a.task.Args)
		if size > frameBytes && len(tasks) > 0 {
			break
		}
		a.written, a.instance = true, s.instance
		tasks = append(tasks, taskOf(a))
	}
	if i == len(s.queued) {
		s.queued = s.queued[:0]
	} else {
		s.queued = s.queued[i:]
	}
	return tasks
}

func taskOf(a *attempt) *workerv1.Task {
	task := &workerv1.Task{
		Id: a.task.ID, Kind: a.task.Kind, Lease: a.key.lease, Args: a.task.Args,
		Attempt: uint32(a.task.Attempt), MaxAttempts: uint32(a.task.MaxAttempts), Queue: a.task.Queue,
		Priority: uint32(a.task.Priority), Batch: a.task.Batch, Headers: a.task.Headers,
		CreatedAtUs: a.task.CreatedAt.UnixMicro(), ScheduledAtUs: a.task.ScheduledAt.UnixMicro(),
	}
	if !a.task.Deadline.IsZero() {
		task.DeadlineUs = a.task.Deadline.UnixMicro()
	}
	return task
}
