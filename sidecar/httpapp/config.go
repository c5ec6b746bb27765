package httpapp

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"
)

// Defaults of [Config], for its zero fields.
const (
	DefaultSource           = "/sched"
	DefaultUserAgent        = "sched-sidecar"
	DefaultMaxResponseBytes = 1 << 20
	DefaultHealthTimeout    = 2 * time.Second
	DefaultDialTimeout      = 5 * time.Second
	DefaultMaxIdleConns     = 2048

	// MaxMaxResponseBytes is the most that MaxResponseBytes may be: jsonb holds
	// no more.
	MaxMaxResponseBytes = 255 << 20

	// DefaultIdleConnTimeout is shorter than what common servers grant an idle
	// connection (Gunicorn 2 s, Node.js and Uvicorn 5 s). A request that meets
	// the server's own close is lost, and its attempt with it.
	DefaultIdleConnTimeout = 1500 * time.Millisecond
)

// Config says where the app is and how to talk to it. Zero fields other than
// URL take the Default… of this package.
type Config struct {
	// URL of the app: http://host:port/prefix, https://… or
	// unix:///path/to.sock, the latter with an optional :/prefix; h2c://… and
	// h2c+unix:///… for an app that speaks HTTP/2 without TLS. A task of kind K
	// goes to URL/K.
	URL string

	// Secrets sign each request by Standard Webhooks, each as whsec_ and the
	// base64 of 24 to 64 bytes. During a rotation there are two: an app that
	// knows either accepts the request. None: requests aren't signed.
	Secrets []string

	// Source is the CloudEvents source, a URI reference. With the task's id it
	// identifies an event; fleets that share an app need one each.
	Source string

	// MaxResponseBytes bounds a response's body. A task whose 2xx response is
	// longer completes without output.
	MaxResponseBytes int64

	// HealthPath makes [Dispatcher.Probe] send GET to this path of the app's
	// host, where any answer will do. Empty: connecting is enough.
	HealthPath    string
	HealthTimeout time.Duration

	// Connections. MaxConns bounds all of them, 0 leaves that to the sidecar's
	// slots; HTTP/2 needs only as many as the app's own limit of requests on one
	// demands. An idle one is closed after IdleConnTimeout: keep that shorter
	// than the app's own.
	MaxConns        int
	MaxIdleConns    int
	IdleConnTimeout time.Duration
	DialTimeout     time.Duration
	TLS             *tls.Config // for https://; nil = the system's roots

	UserAgent string
	Logger    *slog.Logger     // nil = none
	Clock     func() time.Time // nil = time.Now
}

func (c Config) withDefaults() Config {
	if c.Source == "" {
		c.Source = DefaultSource
	}
	if c.UserAgent == "" {
		c.UserAgent = DefaultUserAgent
	}
	if c.MaxResponseBytes == 0 {
		c.MaxResponseBytes = DefaultMaxResponseBytes
	}
	if c.HealthTimeout == 0 {
		c.HealthTimeout = DefaultHealthTimeout
	}
	if c.MaxIdleConns == 0 {
		c.MaxIdleConns = DefaultMaxIdleConns
	}
	if c.IdleConnTimeout == 0 {
		c.IdleConnTimeout = DefaultIdleConnTimeout
	}
	if c.DialTimeout == 0 {
		c.DialTimeout = DefaultDialTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	return c
}

// validate checks what parseTarget and parseSecrets don't, and names every
// mistake at once.
func (c Config) validate() error {
	var errs []error
	if _, err := url.Parse(c.Source); err != nil || !printableASCII(c.Source) {
		errs = append(errs, fmt.Errorf("the CloudEvents source %q is no URI reference; use something like https://example.com/sched or /sched", c.Source))
	}
	if !printableASCII(c.UserAgent) {
		errs = append(errs, fmt.Errorf("the user agent %q holds characters that HTTP headers can't; use printable ASCII", c.UserAgent))
	}
	if c.HealthPath != "" {
		if u, err := url.Parse(c.HealthPath); err != nil || !strings.HasPrefix(c.HealthPath, "/") || u.Host != "" || u.Fragment != "" {
			errs = append(errs, fmt.Errorf("the health path %q is no path; start it with one slash, like /healthz", c.HealthPath))
		}
	}
	if c.MaxResponseBytes > MaxMaxResponseBytes {
		errs = append(errs, fmt.Errorf("the response limit is %d bytes; set at most %d, Postgres stores no more as an output", c.MaxResponseBytes, MaxMaxResponseBytes))
	}
	for _, limit := range []struct {
		name  string
		value int64
	}{
		{"the response limit", c.MaxResponseBytes},
		{"the health timeout", int64(c.HealthTimeout)},
		{"the limit of connections", int64(c.MaxConns)},
		{"the limit of idle connections", int64(c.MaxIdleConns)},
		{"the idle timeout of connections", int64(c.IdleConnTimeout)},
		{"the dial timeout", int64(c.DialTimeout)},
	} {
		if limit.value < 0 {
			errs = append(errs, fmt.Errorf("%s is negative; set a positive one, or 0 for the default", limit.name))
		}
	}
	return errors.Join(errs...)
}
