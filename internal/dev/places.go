package dev

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sched-sidecar/sched/internal/app"
	"github.com/sched-sidecar/sched/internal/config"
)

const (
	defaultAppPort = "8080"
	dialTimeout    = time.Second
)

// places is what was chosen for the app and the admin listener, and why it isn't the usual.
type places struct {
	notes []string
}

func (p *places) note(format string, args ...any) {
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

// choosePlaces fills in where the app and the admin listener are, taking free ports for what nobody chose.
func (s *server) choosePlaces(ctx context.Context) (*places, error) {
	p := &places{}
	if err := s.chooseApp(ctx, p); err != nil {
		return nil, err
	}
	if !s.opts.Given("shutdown_grace") {
		s.cfg.ShutdownGrace = 5 * time.Second // somebody waits at a terminal
	}
	if !s.opts.Given("app.send_api") {
		s.cfg.App.SendAPI = true // its port may be any
	}
	if s.opts.Given("admin.addr") || isFree(ctx, s.cfg.Admin.ListenAddr()) {
		return p, nil
	}
	usual := s.cfg.Admin.Addr
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	s.cfg.Admin.Addr = net.JoinHostPort("127.0.0.1", port)
	p.note("%s is taken: the admin listener is on %s", usual, s.cfg.Admin.Addr)
	return p, nil
}

func (s *server) chooseApp(ctx context.Context, p *places) error {
	chosen := s.opts.Given("app.url")
	if !chosen {
		port := variable(s.opts.Environ, "PORT")
		chosen = port != ""
		if !chosen {
			port = defaultAppPort
		}
		// Not 127.0.0.1: what listens on "localhost" may be on ::1 alone.
		s.cfg.App.URL = "http://localhost:" + port
		if err := s.cfg.Validate(); err != nil {
			return fmt.Errorf("PORT=%s is in the environment and makes no URL of the app: %w", port, err)
		}
	}
	if len(s.opts.Command) == 0 || !answers(ctx, s.cfg.App.URL) {
		return nil
	}
	if chosen {
		return s.stranger()
	}
	port, err := freePort(ctx)
	if err != nil {
		return err
	}
	s.cfg.App.URL = "http://localhost:" + port
	p.note("port %s is taken: the app is to listen on PORT=%s", defaultAppPort, port)
	return nil
}

// stranger says that the app's place is taken.
func (s *server) stranger() error {
	return fmt.Errorf("something listens on %s already, and would get the app's tasks: stop it, or give the app another port with PORT or --app-url",
		s.cfg.App.URL)
}

// appEnv is the app's environment.
func (s *server) appEnv(dsn string) []string {
	set := []string{"DATABASE_URL=" + dsn, "SCHED_DATABASE_URL=" + dsn}
	if port := app.PortOf(s.cfg.App.URL); port != "" {
		set = append(set, "PORT="+port)
	}
	if variable(s.opts.Environ, "PYTHONUNBUFFERED") == "" {
		set = append(set, "PYTHONUNBUFFERED=1") // its output is a pipe, and somebody watches
	}
	env := slices.DeleteFunc(slices.Clone(s.opts.Environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.ContainsFunc(append(set, DatabaseVariables()...), func(other string) bool {
			otherName, _, _ := strings.Cut(other, "=")
			return name == otherName
		})
	})
	return append(env, set...)
}

// DatabaseVariables are those that name a database to a sidecar. None of them is heeded here: the database is our own.
func DatabaseVariables() []string {
	names := []string{"DATABASE_URL"}
	for _, key := range []string{"database.url", "database.listen_url"} {
		env := config.Field{Key: key}.Env()
		names = append(names, env, env+"_FILE")
	}
	return names
}

// variable is the value of one of the variables.
func variable(environ []string, name string) string {
	for _, kv := range environ {
		if value, found := strings.CutPrefix(kv, name+"="); found {
			return value
		}
	}
	return ""
}

// answers reports whether something listens at the app's URL.
func answers(ctx context.Context, appURL string) bool {
	network, address := "tcp", ""
	if socket, found := strings.CutPrefix(appURL, "unix://"); found {
		network = "unix"
		address, _, _ = strings.Cut(socket, ":/")
	} else if u, err := url.Parse(appURL); err == nil {
		address = net.JoinHostPort(u.Hostname(), app.PortOf(appURL))
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return false
	}
	_ = conn.Close() // nothing was sent that could be lost
	return true
}

func isFree(ctx context.Context, address string) bool {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", address)
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

func freePort(ctx context.Context) (string, error) {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("looking for a free port: %w", err)
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return "", err
	}
	return port, listener.Close()
}
