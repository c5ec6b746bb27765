package grpcapp

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	workerv1 "github.com/sched-sidecar/sched/proto/sched/worker/v1"
	"github.com/sched-sidecar/sched/sidecar/answer"
)

const (
	// stopPatience is how long streams may take to end by themselves.
	stopPatience = 2 * time.Second
	// keepaliveMin is the most often an app may ping; grpc's own default of five
	// minutes punishes ordinary clients with ENHANCE_YOUR_CALM.
	keepaliveMin = time.Second
	// receiveMax bounds a frame from the app: a window of small results, or one
	// large output.
	receiveMax = 64 << 20
)

// Server takes sessions at an address.
type Server struct {
	dispatcher *Dispatcher
	listener   net.Listener
	grpc       *grpc.Server
	health     *health.Server
}

// service is the dispatcher as grpc sees it.
type service struct {
	workerv1.UnimplementedWorkerServiceServer
	dispatcher *Dispatcher
}

func (s service) Session(stream stream) error { return s.dispatcher.Session(stream) }

// Listen opens the address of the configuration. [Server.Serve] must follow, or
// [Server.Close].
func (d *Dispatcher) Listen(ctx context.Context) (*Server, error) {
	listener, err := listen(ctx, d.config.Listen)
	if err != nil {
		return nil, err
	}
	s := &Server{dispatcher: d, listener: listener, health: health.NewServer()}
	s.grpc = grpc.NewServer(
		grpc.MaxRecvMsgSize(receiveMax),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveMin, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 3 * d.config.Heartbeat, Timeout: d.config.Heartbeat}),
	)
	workerv1.RegisterWorkerServiceServer(s.grpc, service{dispatcher: d})
	healthv1.RegisterHealthServer(s.grpc, s.health)
	s.health.SetServingStatus(workerv1.WorkerService_ServiceDesc.ServiceName, healthv1.HealthCheckResponse_SERVING)
	return s, nil
}

// Addr is where apps connect to.
func (s *Server) Addr() string {
	if s.listener.Addr().Network() == "unix" {
		return unixPrefix + s.listener.Addr().String()
	}
	return s.listener.Addr().String()
}

// Serve takes sessions until ctx ends, then ends them all.
func (s *Server) Serve(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- s.grpc.Serve(s.listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve the app's sessions: %w", err)
	case <-ctx.Done():
	}
	s.health.Shutdown()
	s.dispatcher.shut()
	patience := time.AfterFunc(stopPatience, s.grpc.Stop)
	defer patience.Stop()
	s.grpc.GracefulStop()
	err := <-served
	s.dispatcher.background.Wait()
	return err
}

// Close frees the address of a server that was never served.
func (s *Server) Close() { _ = s.listener.Close() }

// Drain tells the apps that no more tasks come, and takes no new session but of an
// app that lost its stream with tasks in hand. What is left at the deadline is taken away.
func (d *Dispatcher) Drain(deadline time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drain = &workerv1.Drain{DeadlineUs: deadline.UnixMicro()}
	for _, s := range d.sessions {
		s.drain = d.drain
		s.tell()
	}
}

// shut ends all streams and fails what they held.
func (d *Dispatcher) shut() {
	d.mu.Lock()
	d.closed = true
	for _, s := range slices.Clone(d.sessions) {
		s.leave(errStopping)
		d.detach(s)
	}
	d.fill() // nobody is left: hands back what waits
	if d.reaper != nil {
		d.reaper.Stop()
		d.reaper = nil
	}
	d.mu.Unlock()
	d.reap()
}

// Running is an attempt that an app holds.
type Running struct {
	TaskID   int64
	Kind     string
	Instance string
	Percent  float32 // 0 to 100, as the app said last
	Message  string
}

// Running lists the attempts that apps hold, with how far they are.
func (d *Dispatcher) Running() []Running {
	d.mu.Lock()
	defer d.mu.Unlock()
	running := make([]Running, 0, len(d.attempts))
	for _, a := range d.attempts {
		if a.written {
			running = append(running, Running{a.task.ID, a.task.Kind, a.instance, a.percent, a.message})
		}
	}
	slices.SortFunc(running, func(a, b Running) int { return int(a.TaskID - b.TaskID) })
	return running
}

// progress notes how far an attempt is.
func (d *Dispatcher) progress(s *session, p *workerv1.Progress) error {
	if p.GetPercent() < 0 || p.GetPercent() > 100 || p.GetPercent() != p.GetPercent() {
		return protocolError("progress of task %d: percent %v is not 0 to 100", p.GetTaskId(), p.GetPercent())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if a := s.held[attemptKey{p.GetTaskId(), p.GetLease()}]; a != nil {
		a.percent, a.message = p.GetPercent(), answer.Text(p.GetMessage(), errorBytes)
	}
	return nil
}
