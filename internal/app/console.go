package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sched-sidecar/sched/sidecar/console"
)

// consoleShare is the part of the pool, one in so many connections, that the console
// may use at once: what it shows must not keep tasks waiting.
const consoleShare = 5

// openConsole makes the console, and its handler. Where it is off, the handler says why.
func (s *sidecar) openConsole(ctx context.Context, pool *pgxpool.Pool) (http.Handler, error) {
	cfg := s.cfg.Console
	if !cfg.Enabled {
		return nil, nil
	}
	made, err := console.New(console.Config{
		Pool: pool, Connections: s.cfg.Database.PoolMax / consoleShare, Loopback: s.cfg.Admin.Loopback(),
		Token: cfg.Token.Reveal(), User: cfg.User, Password: cfg.Password.Reveal(), RiverUIURL: cfg.RiverUIURL,
		Version: s.opts.Version, Host: hostname(), Logger: s.opts.Logger,
	})
	if errors.Is(err, console.ErrUnguarded) {
		s.opts.Logger.WarnContext(ctx, "the console is off: others reach admin.addr, and neither console.token nor console.password is set",
			slog.String("addr", s.cfg.Admin.ListenAddr()))
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, console.ErrUnguarded.Error(), http.StatusForbidden)
		}), nil
	}
	if err != nil {
		return nil, err
	}
	s.console = made
	return made.Handler(), nil
}

// consoleURL is where the console is, or "off".
func (s *sidecar) consoleURL() string {
	if s.console == nil {
		return "off"
	}
	return "http://" + s.server.Addr() + console.Path + "/"
}
