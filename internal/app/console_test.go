package app

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/config"
	"github.com/sched-sidecar/sched/internal/pgtest"
)

// Where others reach the listener, the console is off until somebody has to log in;
// the sidecar runs all the same.
func TestConsoleIsOffUnlessGuarded(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for _, tt := range []struct {
		name   string
		change func(*config.Sidecar)
		status int // 0: there is no console
	}{
		{"loopback", func(*config.Sidecar) {}, http.StatusOK},
		{"turned off", func(c *config.Sidecar) { c.Console.Enabled = false }, 0},
		{"exposed", func(c *config.Sidecar) { c.Admin.Addr, c.Admin.Expose = ":9464", true }, http.StatusForbidden},
		{"an address of the machine", func(c *config.Sidecar) { c.Admin.Addr, c.Admin.Expose = "10.0.0.1:9464", true }, http.StatusForbidden},
		{"exposed, with a token", func(c *config.Sidecar) {
			c.Admin.Addr, c.Admin.Expose, c.Console.Token = ":9464", true, "0123456789abcdef"
		}, http.StatusUnauthorized},
		{"exposed, with a password", func(c *config.Sidecar) {
			c.Admin.Addr, c.Admin.Expose, c.Console.Password = ":9464", true, "0123456789abcdef"
		}, http.StatusUnauthorized},
	} {
		cfg := config.DefaultSidecar()
		tt.change(&cfg)
		s := &sidecar{cfg: cfg, opts: Options{Logger: slog.New(slog.DiscardHandler)}}
		handler, err := s.openConsole(t.Context(), pool)
		require.NoError(t, err, tt.name)
		if tt.status == 0 {
			require.Nil(t, handler, tt.name)
			continue
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/console/tasks", nil)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		require.Equal(t, tt.status, w.Code, tt.name)
	}
}
