package grpcapp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/sched-sidecar/sched/jobs"
)

// Bounds of what an app may ask for or say.
const (
	windowMax   = 5000
	kindsMax    = 1000
	labelsMax   = 64
	nameMax     = 127
	labelMax    = 255
	frameTasks  = 256     // in one Tasks frame
	frameBytes  = 1 << 20 // of args in one, unless a single task has more
	errorBytes  = 2 << 10
	snoozeMin   = time.Second
	snoozeMax   = time.Hour
	retryMax    = 7 * 24 * time.Hour
	lateTimeout = 15 * time.Second
	lateMax     = 1000 // results of unknown attempts that wait for Postgres
)

// Late settles an attempt that this process doesn't know, by its lease. It
// returns [jobs.ErrLeaseLost] when the lease owns nothing any more.
type Late interface {
	SettleAccepted(ctx context.Context, taskID int64, lease jobs.Lease, outcome jobs.Outcome) error
}

// Config says where sessions are taken and what they are allowed.
type Config struct {
	// Listen is unix:///path/to.sock or host:port. Nobody logs in there: it should be
	// out of reach of other machines.
	Listen string
	// MaxOutputBytes bounds a task's output. A longer one is dropped, and said.
	MaxOutputBytes int64
	// Grace is how long attempts of a broken session wait for their app. At least
	// 0. Default: 5 s.
	Grace time.Duration
	// Heartbeat is how often each side shows that it lives; a side that is silent for
	// three of them is gone. Default: 5 s.
	Heartbeat time.Duration
	// HelloTimeout is how long a stream may be open without a hello. Default: 10 s.
	HelloTimeout time.Duration
	// WorkerID names the registration in Welcome. Optional.
	WorkerID func() string
	// OnCapacity is told how many tasks all sessions together may hold, whenever
	// that changes. Optional.
	OnCapacity func(tasks int)
	// OnLoad is told what an app says of its own load, in percent. Optional.
	OnLoad func(percent float64)
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Grace == 0 {
		c.Grace = 5 * time.Second
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = 5 * time.Second
	}
	if c.HelloTimeout == 0 {
		c.HelloTimeout = 10 * time.Second
	}
	if c.MaxOutputBytes == 0 {
		c.MaxOutputBytes = 1 << 20
	}
	if c.WorkerID == nil {
		c.WorkerID = func() string { return "" }
	}
	if c.OnCapacity == nil {
		c.OnCapacity = func(int) {}
	}
	if c.OnLoad == nil {
		c.OnLoad = func(float64) {}
	}
	return c
}

// unixPrefix begins the address of a Unix socket.
const unixPrefix = "unix://"

// listen opens the address. A socket file that nobody listens at any more is
// replaced; one that is in use is left alone.
func listen(ctx context.Context, address string) (net.Listener, error) {
	var config net.ListenConfig
	path, isUnix := strings.CutPrefix(address, unixPrefix)
	if !isUnix {
		listener, err := config.Listen(ctx, "tcp", address)
		if err != nil {
			return nil, fmt.Errorf("listen for the app's sessions: %w", err)
		}
		return listener, nil
	}
	var dialer net.Dialer
	if conn, err := dialer.DialContext(ctx, "unix", path); err == nil {
		_ = conn.Close()
		return nil, fmt.Errorf("listen for the app's sessions: %s is in use by another process", path)
	}
	if info, err := os.Stat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("remove the stale socket: %w", err)
		}
	}
	listener, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen for the app's sessions: %w", err)
	}
	return listener, nil
}
