package devpg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	startTimeout = 2 * time.Minute // when the caller's context has no deadline; recovery of a large directory takes a while
	stopGrace    = 10 * time.Second
	portAttempts = 8
	killPatience = 10 * time.Second
)

// ErrStopped is returned by Restart and Kill after Stop.
var ErrStopped = errors.New("devpg: the server has been stopped for good")

// Server is a Postgres server of ours. Its methods are safe for concurrent use.
type Server struct {
	opts     Options
	log      *slog.Logger
	account  account
	binDir   string
	layout   layout
	password string
	lock     *os.File

	mu      sync.Mutex
	port    int
	sup     *supervisor // nil while the server is down
	stopped bool
}

// Start starts a server and returns when it answers. ctx bounds the start only; the server runs until Stop, or until
// this process ends in any way.
func Start(ctx context.Context, opts Options) (*Server, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, startTimeout)
		defer cancel()
	}
	s := &Server{opts: opts, log: opts.logger(), port: opts.Port}
	if err := s.prepare(ctx); err != nil {
		return nil, fmt.Errorf("devpg: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.run(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("devpg: %w", err), s.stop())
	}
	return s, nil
}

// prepare finds the binaries and makes the directory; when it fails it leaves nothing.
func (s *Server) prepare(ctx context.Context) (err error) {
	if s.account, err = serverAccount(); err != nil {
		return err
	}
	if s.binDir, err = newFinder(&s.opts, s.account, s.log).find(ctx); err != nil {
		return err
	}
	if s.layout, err = makeLayout(&s.opts, s.account); err != nil {
		return err
	}
	if s.lock, err = lockDir(ctx, s.layout.lock()); err != nil {
		return errors.Join(err, s.layout.remove())
	}
	if s.password, err = s.layout.prepareData(ctx, s.binDir, s.account, &s.opts, s.lock); err != nil {
		return errors.Join(err, s.lock.Close(), s.layout.remove())
	}
	return nil
}

// run starts the server on its port; without one, on a free port, again when another process was quicker to take it.
func (s *Server) run(ctx context.Context) error {
	if s.port != 0 {
		return s.runOn(ctx, s.port)
	}
	var err error
	for i := range portAttempts + len(s.opts.PreferPorts) {
		var port int
		if i < len(s.opts.PreferPorts) {
			// Looked at only now that we have the directory: the last server in it may have had the port a moment ago.
			if port = s.opts.PreferPorts[i]; port == 0 || !portIsFree(port) {
				continue
			}
		} else if port, err = freePort(); err != nil {
			return err
		}
		if err = s.runOn(ctx, port); !errors.Is(err, errPortTaken) {
			return err
		}
	}
	return err
}

var errPortTaken = errors.New("the port is taken by another process: choose another one, or 0 for a free one")

func (s *Server) runOn(ctx context.Context, port int) error {
	if err := s.layout.writeConfig(s.account, s.opts.config(port, s.layout.socketDir)); err != nil {
		return err
	}
	logged := fileSize(s.layout.log())
	run := supervision{
		account:  s.account,
		postgres: filepath.Join(s.binDir, "postgres"),
		dataDir:  s.layout.data(),
		logFile:  s.layout.log(),
		workDir:  s.layout.base,
		lock:     s.lock,
		remove:   s.layout.removable(),
	}
	if s.opts.Keep {
		run.remove = nil
	}
	if !s.layout.temp {
		run.grace = stopGrace
	}
	sup, err := supervise(run)
	if err != nil {
		return err
	}
	if err := s.awaitReady(ctx, sup, port); err != nil {
		stopErr := sup.stop(0)
		sup.release()
		tail := lastLines(readFrom(s.layout.log(), logged), 12)
		if strings.Contains(tail, "could not create any TCP/IP sockets") {
			err = fmt.Errorf("port %d: %w", port, errPortTaken)
		}
		return errors.Join(fmt.Errorf("%w; the end of its log:\n%s", err, tail), stopErr)
	}
	s.port, s.sup = port, sup
	s.log.Info("postgres started", "port", port, "pid", sup.pid, "dir", s.layout.base, "user", s.account.name, "bin", s.binDir)
	return nil
}

// awaitReady waits until the server answers on its own socket, which nobody else can have.
func (s *Server) awaitReady(ctx context.Context, sup *supervisor, port int) error {
	dsn := socketDSN(s.layout.socketDir, port, "postgres")
	for {
		if sup.awaitExit(10 * time.Millisecond) {
			return fmt.Errorf("the server ended while starting, with status %s", sup.status)
		}
		conn, err := pgx.Connect(ctx, dsn)
		if err == nil {
			return conn.Close(ctx)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the server did not answer in time: %w", err)
		}
	}
}

// Kill ends the server and all its processes at once with SIGKILL, as a crash of the machine's memory would, and returns
// when they're gone. Restart brings it back on the same port.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return ErrStopped
	}
	if s.sup == nil {
		return nil
	}
	if s.sup.awaitExit(0) { // it crashed by itself; its number may be another process's by now
		return s.halt(0)
	}
	pid := s.sup.pid
	// Stopped first, so that it can't start another child between our look and our kill.
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("devpg: stopping server process %d: %w", pid, err)
	}
	victims := append([]int{pid}, childrenOf(pid)...)
	for _, victim := range victims {
		_ = syscall.Kill(victim, syscall.SIGKILL) // gone already is as good
	}
	if err := awaitGone(victims[1:], killPatience); err != nil {
		return fmt.Errorf("devpg: after SIGKILL: %w", err)
	}
	if !s.sup.awaitExit(killPatience) {
		return fmt.Errorf("devpg: server process %d is still there after SIGKILL", pid)
	}
	return s.halt(0)
}

// Restart stops the server in order if it runs, and starts it again with the same data on the same port.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return ErrStopped
	}
	if err := s.halt(stopGrace); err != nil {
		return fmt.Errorf("devpg: %w", err)
	}
	if err := s.layout.recover(); err != nil {
		return fmt.Errorf("devpg: %w", err)
	}
	if err := s.run(ctx); err != nil {
		return fmt.Errorf("devpg: %w", err)
	}
	return nil
}

// Stop stops the server for good and removes its temporary directory. Later calls do nothing.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stop()
}

func (s *Server) stop() error {
	if s.stopped {
		return nil
	}
	s.stopped = true
	grace := stopGrace
	if s.layout.temp && !s.opts.Keep {
		grace = 0 // nobody will read the data again
	}
	errs := []error{s.halt(grace), s.lock.Close()}
	if !s.opts.Keep {
		errs = append(errs, s.layout.remove())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("devpg: stopping: %w", err)
	}
	return nil
}

// halt ends the running server, if there is one.
func (s *Server) halt(grace time.Duration) error {
	if s.sup == nil {
		return nil
	}
	err := s.sup.stop(grace)
	s.sup.release()
	s.log.Info("postgres stopped", "port", s.port, "pid", s.sup.pid)
	s.sup = nil
	// A server that was killed leaves its children for a moment, busy ones for longer; with them in the way the next one
	// refuses to start.
	orphans := workersIn(s.layout.data())
	for _, pid := range orphans {
		_ = syscall.Kill(pid, syscall.SIGKILL) // gone already is as good
	}
	return errors.Join(err, awaitGone(orphans, killPatience))
}

// DSN is the URL of the database postgres over TCP, as superuser, with the password.
func (s *Server) DSN() string { return s.DSNFor("postgres") }

// DSNFor is DSN for another database.
func (s *Server) DSNFor(database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(superuser, s.password),
		Host:     net.JoinHostPort(loopback, strconv.Itoa(s.Port())),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// SocketDSN is the URL of a database over the Unix socket. Any role may log in there without a password.
func (s *Server) SocketDSN(database string) string {
	return socketDSN(s.layout.socketDir, s.Port(), database)
}

func socketDSN(dir string, port int, database string) string {
	query := url.Values{"host": {dir}, "port": {strconv.Itoa(port)}, "sslmode": {"disable"}}
	u := url.URL{Scheme: "postgres", User: url.User(superuser), Path: "/" + database, RawQuery: query.Encode()}
	return u.String()
}

// SocketDir is the directory of the Unix socket.
func (s *Server) SocketDir() string { return s.layout.socketDir }

// Dir is the directory that holds data/, server.log and the socket.
func (s *Server) Dir() string { return s.layout.base }

// BinDir is the directory of the server binaries in use.
func (s *Server) BinDir() string { return s.binDir }

// Port is the TCP port on 127.0.0.1; it stays the same over Kill and Restart.
func (s *Server) Port() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.port
}

// Pid is the process id of the postmaster, 0 after Kill or Stop.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sup == nil {
		return 0
	}
	return s.sup.pid
}

func portIsFree(port int) bool {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		return false
	}
	return l.Close() == nil
}

func freePort() (int, error) {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return 0, fmt.Errorf("looking for a free port: %w", err)
	}
	port := netip.MustParseAddrPort(l.Addr().String()).Port()
	return int(port), l.Close()
}

func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// readFrom reads what was added to a file since it had the given size; an unreadable log is an empty one.
func readFrom(path string, offset int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return ""
	}
	const enough = 64 << 10
	content, err := io.ReadAll(io.LimitReader(f, enough))
	if err != nil {
		return ""
	}
	return string(content)
}
