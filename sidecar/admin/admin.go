// Package admin is the sidecar's listener for operators and for the app beside
// it: liveness, readiness, metrics, draining, profiles, the task API under /v1/
// and the console. The console may ask for a login; nothing else does, and the
// listener belongs on a loopback address.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	headerTimeout   = 5 * time.Second
	idleTimeout     = 2 * time.Minute
	shutdownTimeout = 2 * time.Second
)

// Config is what the listener shows and serves.
type Config struct {
	Addr  string // host:port; port 0: a free one
	Pprof bool
	// Gatherer has what /metrics shows. Nil: there is no such page.
	Gatherer prometheus.Gatherer
	// NotReady returns why the sidecar takes no tasks now; empty: it is ready.
	NotReady func() []string
	// Status is shown as JSON by /status.
	Status func() any
	// Drain stops claims for good and returns at once.
	Drain func(ctx context.Context)
	// TaskAPI serves /v1/.
	TaskAPI http.Handler
	// Console serves /console, and / leads browsers there. Optional.
	Console http.Handler
	Logger  *slog.Logger
}

// Server is a bound listener.
type Server struct {
	config   Config
	listener net.Listener
	server   *http.Server
}

// Listen binds the address. The error says what to change.
func Listen(ctx context.Context, config Config) (*Server, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", config.Addr)
	if err != nil {
		return nil, fmt.Errorf("admin listener: %w; choose another admin.addr, or port 0 for a free one", err)
	}
	s := &Server{config: config, listener: listener}
	s.server = &http.Server{
		Handler:           s.routes(),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		ErrorLog:          slog.NewLogLogger(config.Logger.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// Addr is the bound address.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Serve answers until ctx ends, then lets open requests finish, for a moment.
func (s *Server) Serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		shutdownCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		if s.server.Shutdown(shutdownCtx) != nil {
			_ = s.server.Close() // whoever is still connected had their moment
		}
	})
	defer stop()
	if err := s.server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("admin listener: %w", err)
	}
	return nil
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", s.ready)
	mux.HandleFunc("GET /status", s.status)
	mux.HandleFunc("POST /drain", s.drain)
	if s.config.Gatherer != nil {
		// OpenMetrics carries exemplars; native histograms come to a server that asks for them.
		mux.Handle("GET /metrics", promhttp.HandlerFor(s.config.Gatherer, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	}
	if s.config.TaskAPI != nil {
		mux.Handle("/v1/", s.config.TaskAPI)
	}
	if s.config.Console != nil {
		mux.Handle("/console", s.config.Console)
		mux.Handle("/console/", s.config.Console)
	}
	mux.HandleFunc("GET /{$}", s.root)
	if s.config.Pprof {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// root leads people to the console, and tells programs what there is.
func (s *Server) root(w http.ResponseWriter, r *http.Request) {
	if s.config.Console != nil && strings.Contains(r.Header.Get("Accept"), "text/html") {
		http.Redirect(w, r, "/console/", http.StatusSeeOther)
		return
	}
	writeText(w, http.StatusOK, "sched-sidecar: /livez /readyz /status /metrics /console/")
}

func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	if reasons := s.config.NotReady(); len(reasons) > 0 {
		writeText(w, http.StatusServiceUnavailable, "not ready: "+strings.Join(reasons, ", "))
		return
	}
	writeText(w, http.StatusOK, "ok")
}

func (s *Server) status(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, s.config.Status())
}

// drain is for a preStop hook: it answers at once, and the status shows when
// nothing runs any more. It refuses what a page in a browser could send.
func (s *Server) drain(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" {
		writeText(w, http.StatusForbidden, "draining is not for pages in a browser")
		return
	}
	s.config.Drain(r.Context())
	writeJSON(w, http.StatusAccepted, s.config.Status())
}

func writeText(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text + "\n")) // the client may be gone
}

func writeJSON(w http.ResponseWriter, code int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(value) // the client may be gone
}
