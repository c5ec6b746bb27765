package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Path is where the console is.
const Path = "/console"

// Config is what the console needs to know.
type Config struct {
	Pool *pgxpool.Pool
	// Connections is how many of the pool's connections it uses at once; at least 1.
	Connections int
	// Loopback says that only this machine reaches the listener.
	Loopback bool
	// Token and Password guard the console, each by itself; empty: not set. User goes
	// with the password and is sched if it is empty.
	Token, User, Password string
	// RiverUIURL is linked to, if it is set.
	RiverUIURL string
	// Version and Host are shown at the foot of each page.
	Version, Host string
	Logger        *slog.Logger

	// MaxStreams bounds who is shown live figures at once; 0: 64.
	MaxStreams int
}

// ErrUnguarded is returned by [New] when other machines reach the listener and
// neither a token nor a password is set.
var ErrUnguarded = errors.New("the console is off: admin.addr can be reached from other machines, and neither console.token nor console.password is set")

const defaultMaxStreams = 64

// Console is the pages and the poller behind them.
type Console struct {
	config Config
	reader *reader
	views  *views
	assets *assets
	access *access
	hub    *hub
}

// New makes a console. Its handler answers from then on; what is live comes while
// [Console.Run] runs.
func New(config Config) (*Console, error) {
	if !config.Loopback && config.Token == "" && config.Password == "" {
		return nil, ErrUnguarded
	}
	if config.MaxStreams == 0 {
		config.MaxStreams = defaultMaxStreams
	}
	assets, err := loadAssets()
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	views, err := loadViews(assets)
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	c := &Console{
		config: config, assets: assets, views: views,
		reader: newReader(config.Pool, max(1, config.Connections)),
		access: newAccess(config, time.Now),
	}
	c.hub = newHub(&source{reader: c.reader, views: views}, config.MaxStreams, config.Logger)
	return c, nil
}

// Run polls for those who look, until ctx ends; then it ends all streams.
func (c *Console) Run(ctx context.Context) error {
	c.hub.run(ctx)
	return nil
}

// Handler serves everything under [Path].
func (c *Console) Handler() http.Handler {
	open := http.NewServeMux()
	open.Handle("GET "+Path+"/static/", c.assets)
	open.HandleFunc("GET "+Path+"/login", c.loginPage)
	open.HandleFunc("POST "+Path+"/login", c.login)
	open.HandleFunc("POST "+Path+"/logout", c.logout)

	guarded := http.NewServeMux()
	guarded.HandleFunc("GET "+Path, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, Path+"/", http.StatusSeeOther)
	})
	guarded.HandleFunc("GET "+Path+"/{$}", c.overview)
	guarded.HandleFunc("GET "+Path+"/workers", c.workers)
	guarded.HandleFunc("GET "+Path+"/workers/{id}", c.worker)
	guarded.HandleFunc("GET "+Path+"/queues", c.queues)
	guarded.HandleFunc("GET "+Path+"/queues/{name}", c.queue)
	guarded.HandleFunc("GET "+Path+"/tasks", c.tasks)
	guarded.HandleFunc("GET "+Path+"/tasks/{id}", c.task)
	guarded.HandleFunc("GET "+Path+"/decisions", c.decisions)
	guarded.HandleFunc("GET "+Path+"/interventions", c.interventions)
	guarded.HandleFunc("GET "+Path+"/live", c.live)
	guarded.HandleFunc(Path+"/", c.notFound)
	open.Handle("/", c.access.guard(c.readable(guarded)))
	return c.access.sameOrigin(secured(open))
}

// readable refuses addresses that hold what no text in Postgres can: there is nothing of
// that name, and nothing to ask for.
func (c *Console) readable(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isText(r.URL.Path) {
			c.notFound(w, r)
			return
		}
		for _, values := range r.URL.Query() {
			if slices.ContainsFunc(values, func(value string) bool { return !isText(value) }) {
				c.render(w, r, http.StatusBadRequest, "message", page{Title: "No such filter", Body: messageBody{
					What: "No such filter", Advice: "What this address asks for holds bytes that are no text, and no name has them.", Back: r.URL.EscapedPath(), BackTo: "Without filters",
				}})
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// isText reports whether Postgres takes it as text: UTF-8 without NUL.
func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// secured says what a browser may do with the pages: nothing but what they bring along.
func secured(next http.Handler) http.Handler {
	const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
		"base-uri 'none'; frame-ancestors 'none'"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}
