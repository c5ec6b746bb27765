package config

import (
	"net"
	"strings"
	"time"
)

// Sidecar is the configuration of one sidecar. The koanf tags are the keys of
// the file; what each means is in [Fields] and docs/config.md.
type Sidecar struct {
	Database Database          `koanf:"database"`
	App      App               `koanf:"app"`
	Queues   []string          `koanf:"queues"` // empty: all
	Kinds    []string          `koanf:"kinds"`  // empty: all
	Labels   map[string]string `koanf:"labels"`
	Slots    Slots             `koanf:"slots"`
	// Elastic says whether slots follow what arrives: off, observe or on.
	Elastic string `koanf:"elastic"`
	Tokens  Tokens `koanf:"tokens"`

	DefaultTimeout   time.Duration `koanf:"default_timeout"`
	MaxResponseBytes int64         `koanf:"max_response_bytes"`
	ShutdownGrace    time.Duration `koanf:"shutdown_grace"`

	PollInterval      time.Duration `koanf:"poll_interval"`
	HeartbeatInterval time.Duration `koanf:"heartbeat_interval"`
	FenceAfter        time.Duration `koanf:"fence_after"`
	EvictAfter        time.Duration `koanf:"evict_after"`

	Retry Retry `koanf:"retry"`
	Admin Admin `koanf:"admin"`
	// Console is what the admin listener shows to people.
	Console Console `koanf:"console"`
	Log     Log     `koanf:"log"`
}

// Database says where the tasks are.
type Database struct {
	// URL in either of libpq's forms. Empty leaves everything to the PG*
	// variables and to libpq's defaults.
	URL DSN `koanf:"url"`
	// ListenURL leads to Postgres itself where URL leads to a pooler.
	ListenURL DSN `koanf:"listen_url"`
	PoolMax   int `koanf:"pool_max"`
}

// The protocols over which an app is handed its tasks.
const (
	ProtocolHTTP = "http"
	ProtocolGRPC = "grpc"
	ProtocolExec = "exec"
)

// App says where the app that executes the tasks is.
type App struct {
	Protocol string `koanf:"protocol"`
	// URL, HealthPath and Secrets are for http.
	URL string `koanf:"url"`
	// HealthPath is asked for with GET; empty means that a TCP connection is
	// sign of life enough.
	HealthPath string `koanf:"health_path"`
	// Secrets sign the requests to the app, in the form of Standard Webhooks.
	// More than one, while they are being rotated: each adds a signature.
	Secrets []Secret `koanf:"secrets"`
	// SendAPI names the sidecar's API in each request, for apps that answer 202.
	SendAPI bool `koanf:"send_api"`
	// PIDFile holds the process id of an app that the sidecar didn't start.
	PIDFile string `koanf:"pid_file"`
	// Listen is where the app opens its sessions over grpc.
	Listen string `koanf:"listen"`
	// Command works on one task, for exec.
	Command []string `koanf:"command"`
}

// Address is where the app is, for people.
func (a App) Address() string {
	switch a.Protocol {
	case ProtocolGRPC:
		return "grpc sessions at " + a.Listen
	case ProtocolExec:
		return "exec " + strings.Join(a.Command, " ")
	default:
		return a.URL
	}
}

// Slots bounds how many tasks run at once.
type Slots struct {
	// Initial is the number at the start; 0 means Ceiling. See [Slots.Start].
	Initial int `koanf:"initial"`
	Ceiling int `koanf:"ceiling"`
}

// The values of [Sidecar.Elastic].
const (
	ElasticOff     = "off"     // slots stay where they begin
	ElasticObserve = "observe" // what would be decided is told, and not applied
	ElasticOn      = "on"
)

// elasticStart is where slots begin that move by themselves, unless told.
const elasticStart = 8

// StartSlots returns the number of slots to begin with.
func (c Sidecar) StartSlots() int {
	if c.Elastic == ElasticOn && c.Slots.Initial == 0 {
		return min(elasticStart, c.Slots.Ceiling)
	}

	return c.Slots.Start()
}

// Start returns the number of slots to begin with, where they stay.
func (s Slots) Start() int {
	if s.Initial == 0 {
		return s.Ceiling
	}

	return s.Initial
}

// Tokens bounds how many tasks this sidecar claims a second.
type Tokens struct {
	Rate  float64 `koanf:"rate"` // 0: no bound
	Burst int     `koanf:"burst"`
}

// Retry is the delay before a failed task runs again: Base × 2^n, at most Cap,
// spread by ± Jitter (a share).
type Retry struct {
	Base   time.Duration `koanf:"base"`
	Cap    time.Duration `koanf:"cap"`
	Jitter float64       `koanf:"jitter"`
}

// Admin is the listener of metrics, health and the console.
type Admin struct {
	Addr string `koanf:"addr"`
	// Expose allows an address that other machines can reach.
	Expose bool `koanf:"expose"`
	Pprof  bool `koanf:"pprof"`
	// Metrics are shown, and measured of each task.
	Metrics bool `koanf:"metrics"`
}

// Loopback reports whether only this machine reaches the listener.
func (a Admin) Loopback() bool {
	host, _, err := net.SplitHostPort(a.ListenAddr())

	return err == nil && host != "" && isLoopback(host)
}

// Console is the admin listener's pages for people.
type Console struct {
	Enabled bool `koanf:"enabled"`
	// Token opens a session in a browser, or is sent as a bearer token.
	Token Secret `koanf:"token"`
	// User and Password are asked for with HTTP's basic authentication.
	User     string `koanf:"user"`
	Password Secret `koanf:"password"`
	// RiverUIURL is where River UI is, to link to; empty: nowhere.
	RiverUIURL string `koanf:"river_ui_url"`
}

// ListenAddr is the address to bind. ":9464" means loopback unless Expose says
// otherwise, where Go's net.Listen would take all interfaces.
func (a Admin) ListenAddr() string {
	host, port, err := net.SplitHostPort(a.Addr)
	if err != nil || host != "" || a.Expose {
		return a.Addr
	}

	return net.JoinHostPort("127.0.0.1", port)
}

// Log says what is logged and how.
type Log struct {
	Level  string `koanf:"level"`
	Format string `koanf:"format"`
}

// DefaultSidecar returns the configuration of a sidecar that was told nothing.
func DefaultSidecar() Sidecar {
	return Sidecar{
		Database: Database{PoolMax: 10},
		App:      App{Protocol: ProtocolHTTP, URL: "http://127.0.0.1:8080", Listen: "127.0.0.1:9465"},
		Slots:    Slots{Ceiling: 64},
		Elastic:  ElasticOff,
		Tokens:   Tokens{Rate: 3000, Burst: 6000},

		DefaultTimeout:   5 * time.Minute,
		MaxResponseBytes: 1 << 20,
		ShutdownGrace:    30 * time.Second,

		PollInterval:      time.Second,
		HeartbeatInterval: 5 * time.Second,
		FenceAfter:        15 * time.Second,
		EvictAfter:        20 * time.Second,

		Retry:   Retry{Base: 100 * time.Millisecond, Cap: 5 * time.Minute, Jitter: 0.2},
		Admin:   Admin{Addr: "127.0.0.1:9464", Metrics: true},
		Console: Console{Enabled: true},
		Log:     Log{Level: "info", Format: "text"},
	}
}
