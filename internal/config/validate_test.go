package config

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*Sidecar)
		want   string // a part of the only problem; empty: valid
	}{
		{"defaults", func(*Sidecar) {}, ""},
		{"ceiling at its bound", func(c *Sidecar) { c.Slots.Ceiling = 5000 }, ""},
		{"ceiling above", func(c *Sidecar) { c.Slots.Ceiling = 5001 }, "slots.ceiling = 5001: must be 1 to 5000; one sidecar"},
		{"ceiling zero", func(c *Sidecar) { c.Slots.Ceiling = 0 }, "slots.ceiling = 0: must be 1 to 5000"},
		{"initial above the ceiling", func(c *Sidecar) { c.Slots.Initial = 65 }, "slots.initial = 65: is above slots.ceiling, 64"},
		{"initial negative", func(c *Sidecar) { c.Slots.Initial = -1 }, "slots.initial = -1: must be 0 to 5000"},
		{"pool", func(c *Sidecar) { c.Database.PoolMax = 3 }, "database.pool_max = 3: must be 4 to 1000"},
		{"jitter NaN", func(c *Sidecar) { c.Retry.Jitter = math.NaN() }, "retry.jitter = NaN: must be 0 to 1"},
		{"cap below base", func(c *Sidecar) { c.Retry.Cap = time.Millisecond }, "retry.cap = 1ms: is below retry.base, 100ms"},
		{"poll above a second", func(c *Sidecar) { c.PollInterval = 2 * time.Second }, "poll_interval = 2s: must be 10ms to 1s"},
		{"fence at evict", func(c *Sidecar) { c.FenceAfter = c.EvictAfter }, "fence_after = 20s: must be less than evict_after, 20s; a sidecar has to stop before"},
		{"three beats just fit", func(c *Sidecar) { c.HeartbeatInterval = 5 * time.Second }, ""},
		{"fence below three beats", func(c *Sidecar) { c.HeartbeatInterval = 6 * time.Second }, "fence_after = 15s: must be at least three times heartbeat_interval, 18s"},
		{"timeout zero", func(c *Sidecar) { c.DefaultTimeout = 0 }, "default_timeout = 0s: must be 1ms to 168h"},
		{"no grace", func(c *Sidecar) { c.ShutdownGrace = 0 }, ""},

		{"app without scheme", func(c *Sidecar) { c.App.URL = "localhost:8080" }, "app.url = localhost:8080: must start with http://, https://, unix:///, h2c:// or h2c+unix:///; write http://host:port"},
		{"app without host", func(c *Sidecar) { c.App.URL = "http://:8080" }, "has no host"},
		{"app empty", func(c *Sidecar) { c.App.URL = "" }, `app.url = "": must start with`},
		{"app with query", func(c *Sidecar) { c.App.URL = "http://h?x" }, "must end before ? and #"},
		{"app with password", func(c *Sidecar) { c.App.URL = "http://u:secret@h" }, "app.url = http://u:xxxxx@h: must not hold a user or password"},
		{"app that speaks HTTP/2", func(c *Sidecar) { c.App.URL = "h2c://127.0.0.1:8080/tasks" }, ""},
		{"app that speaks HTTP/2 on a socket", func(c *Sidecar) { c.App.URL = "h2c+unix:///run/app.sock:/tasks" }, ""},
		{"app that speaks HTTP/2 on no socket", func(c *Sidecar) { c.App.URL = "h2c+unix://run" }, "names no absolute path"},
		{"app on a socket", func(c *Sidecar) { c.App.URL = "unix:///run/app.sock:/tasks" }, ""},
		{"app on a relative socket", func(c *Sidecar) { c.App.URL = "unix://run/app.sock" }, "names no absolute path of a socket"},
		{"app with path", func(c *Sidecar) { c.App.URL = "https://h/tasks/" }, ""},
		{"health path", func(c *Sidecar) { c.App.HealthPath = "up" }, "app.health_path = up: must start with /; write /up"},
		{"secret of the wrong form", func(c *Sidecar) { c.App.Secrets = []Secret{secretA, "hunter2"} }, "app.secrets = xxxxx,xxxxx: number 2 is not whsec_"},
		{"secret too short", func(c *Sidecar) { c.App.Secrets = []Secret{"whsec_AAAA"} }, "number 1 is not whsec_ and the base64 of 24 to 64 bytes"},

		{"protocol", func(c *Sidecar) { c.App.Protocol = "smtp" }, "app.protocol = smtp: must be http, grpc or exec"},
		{"sessions on a socket", func(c *Sidecar) { c.App.Protocol, c.App.Listen = "grpc", "unix:///run/s.sock" }, ""},
		{"sessions on a relative socket", func(c *Sidecar) { c.App.Protocol, c.App.Listen = "grpc", "unix://s.sock" }, "names no absolute path of a socket"},
		{"sessions for everybody", func(c *Sidecar) { c.App.Protocol, c.App.Listen = "grpc", "0.0.0.0:9465" }, "app.listen = 0.0.0.0:9465: can be reached from other machines"},
		{"sessions without a port", func(c *Sidecar) { c.App.Protocol, c.App.Listen = "grpc", "localhost" }, "is neither unix:///path/to.sock nor host:port"},
		{"no command", func(c *Sidecar) { c.App.Protocol = "exec" }, "is empty, and app.protocol is exec"},
		{"a command", func(c *Sidecar) { c.App.Protocol, c.App.Command = "exec", []string{"./work"} }, ""},

		{"console token of spaces", func(c *Sidecar) { c.Console.Token = "hunter2               \n" }, "console.token = xxxxx: has fewer than 16 characters"},
		{"console token", func(c *Sidecar) { c.Console.Token = "hunter2" }, "console.token = xxxxx: has fewer than 16 characters"},
		{"console password", func(c *Sidecar) { c.Console.Password = "hunter2" }, "console.password = xxxxx: has fewer than 12 characters"},
		{"console user", func(c *Sidecar) { c.Console.User = "a:b" }, "console.user = a:b: must not hold :"},
		{"console with all of it", func(c *Sidecar) {
			c.Console.Token, c.Console.Password, c.Console.RiverUIURL = "0123456789abcdef", "0123456789ab", "http://127.0.0.1:8089/ui"
		}, ""},
		{"River UI without a scheme", func(c *Sidecar) { c.Console.RiverUIURL = "localhost:8089" }, "console.river_ui_url: must be http:// or https://"},
		{"River UI as a script", func(c *Sidecar) { c.Console.RiverUIURL = "javascript:alert(1)" }, "console.river_ui_url: must be http:// or https://"},

		{"queue name", func(c *Sidecar) { c.Queues = []string{"Mail"} }, `queues = Mail: "Mail" must be lower-case letters`},
		{"derived queue name", func(c *Sidecar) { c.Queues = []string{"mail|0123456789ab"} }, "must be lower-case letters"},
		{"queue too long", func(c *Sidecar) { c.Queues = []string{strings.Repeat("a", 101)} }, "at most 100 characters"},
		{"queue twice", func(c *Sidecar) { c.Queues = []string{"a", "a"} }, `queues = a,a: names "a" twice`},
		{"kind name", func(c *Sidecar) { c.Kinds = []string{"a b"} }, `"a b" must be letters`},
		{"kinds of River", func(c *Sidecar) { c.Kinds = []string{"A.b/c-d:e[f]<g>+h·i_j"} }, ""},
		{"label key", func(c *Sidecar) { c.Labels = map[string]string{"a b": "x"} }, `labels = a b=x: key "a b" must be`},
		{"label value", func(c *Sidecar) { c.Labels = map[string]string{"a": "x\ny"} }, `the value of "a" must be`},
		{"label of Kubernetes", func(c *Sidecar) { c.Labels = map[string]string{"topology.kubernetes.io/zone": "a, b=c"} }, ""},

		{"admin on a free port", func(c *Sidecar) { c.Admin.Addr = "127.0.0.1:0" }, ""},
		{"admin without a host", func(c *Sidecar) { c.Admin.Addr = ":0" }, ""},
		{"admin on localhost", func(c *Sidecar) { c.Admin.Addr = "localhost:1" }, ""},
		{"admin on IPv6 loopback", func(c *Sidecar) { c.Admin.Addr = "[::1]:1" }, ""},
		{"admin on all interfaces", func(c *Sidecar) { c.Admin.Addr = "0.0.0.0:9464" }, "admin.addr = 0.0.0.0:9464: can be reached from other machines, and it has no login; write 127.0.0.1:9464, or set admin.expose"},
		{"admin on a name", func(c *Sidecar) { c.Admin.Addr = "db:9464" }, "can be reached from other machines"},
		{"admin exposed on purpose", func(c *Sidecar) { c.Admin = Admin{Addr: "0.0.0.0:9464", Expose: true} }, ""},
		{"admin without a port", func(c *Sidecar) { c.Admin.Addr = "127.0.0.1" }, "must be host:port"},
		{"admin port", func(c *Sidecar) { c.Admin.Addr = "127.0.0.1:70000" }, "has a port that is not 0 to 65535"},

		{"elastic", func(c *Sidecar) { c.Elastic = "yes" }, "elastic = yes: must be off, observe or on"},
		{"log level", func(c *Sidecar) { c.Log.Level = "INFO" }, "log.level = INFO: must be debug, info, warn or error"},
		{"log format", func(c *Sidecar) { c.Log.Format = "xml" }, "log.format = xml: must be text or json"},

		{"DSN of keywords", func(c *Sidecar) { c.Database.URL = "host=h user=u password='a b'" }, ""},
		{"DSN with a wrong parameter", func(c *Sidecar) { c.Database.URL = "postgres://u:hunter2@h/d?sslmode=requier" }, "database.url = postgres://u:xxxxx@h/d?sslmode=requier: is not a Postgres connection string: "},
		{"DSN with a raw password", func(c *Sidecar) { c.Database.URL = "postgres://u:hunter2/x@h/d" }, "database.url = postgres://u:xxxxx@h/d: is not a Postgres connection string; write"},
		{"DSN with a parameter of the server's", func(c *Sidecar) { c.Database.URL = "host=h search_path=a plpgsql.check_asserts=off" }, ""},
		{"DSN without its scheme", func(c *Sidecar) { c.Database.URL = "u:hunter2@h:5432/d?sslmode=disable" }, ": is not a Postgres connection string"},
		{"DSN without //", func(c *Sidecar) { c.Database.URL = "postgres:u:hunter2@h:5432/d?sslmode=disable" }, ": is not a Postgres connection string"},
		{"DSN of another kind", func(c *Sidecar) { c.Database.URL = "hunter2" }, "database.url = xxxxx: is not a Postgres connection string"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := DefaultSidecar()
			tt.change(&c)

			err := c.Validate()

			if tt.want == "" {
				require.NoError(t, err)

				return
			}
			require.ErrorContains(t, err, tt.want)
			var invalid *InvalidError
			require.ErrorAs(t, err, &invalid)
			require.Len(t, invalid.Problems, 1, "one fault is one problem: %v", err)
			require.NotContains(t, err.Error(), "hunter2")
		})
	}
}

func TestAdminListenAddr(t *testing.T) {
	t.Parallel()

	require.Equal(t, "127.0.0.1:0", Admin{Addr: ":0"}.ListenAddr())
	require.Equal(t, ":9464", Admin{Addr: ":9464", Expose: true}.ListenAddr())
	require.Equal(t, "[::1]:9464", Admin{Addr: "[::1]:9464"}.ListenAddr())
}
