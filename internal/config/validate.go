package config

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Names as the database checks them: a queue's is River's rule without the "|"
// that derived queues have.
const (
	queuePattern = `^[a-z0-9]+([_-]?[a-z0-9]+)*$`
	maxQueueName = 100
	kindPattern  = `^[A-Za-z0-9_][A-Za-z0-9_\-\[\]<>/.·:+]*$`
	maxKindName  = 127

	maxLabels     = 64
	maxLabelKey   = 128
	maxLabelValue = 256

	secretPrefix   = "whsec_"
	minSecretBytes = 24
	maxSecretBytes = 64
)

// Validate returns all that is wrong, as an [InvalidError], or nil.
func (c *Sidecar) Validate() error {
	problems := c.outOfBounds()
	problems = append(problems, c.checkDatabase()...)
	problems = append(problems, c.checkApp()...)
	problems = append(problems, c.checkNames()...)
	problems = append(problems, c.checkLabels()...)
	problems = append(problems, c.checkOrder()...)
	problems = append(problems, c.checkAdmin()...)
	problems = append(problems, c.checkConsole()...)
	problems = append(problems, c.checkLog()...)

	return invalid(problems)
}

// problem describes the value of a key.
func (c *Sidecar) problem(key, what, advice string) Problem {
	return Problem{Key: key, Value: quoteEmpty(showValue(valueAt(c, key).Interface())), What: what, Advice: advice}
}

// outOfBounds holds every number and duration to the bounds in its field.
func (c *Sidecar) outOfBounds() []Problem {
	var problems []Problem
	for _, f := range Fields() {
		if f.Min == f.Max {
			continue
		}
		v := valueAt(c, f.Key)
		var n float64
		if v.CanFloat() {
			n = v.Float()
		} else {
			n = float64(v.Int())
		}
		if !(n >= f.Min && n <= f.Max) { // so that NaN is out of bounds
			problems = append(problems, c.problem(f.Key, "must be "+f.Allowed(), f.Advice))
		}
	}

	return problems
}

func (c *Sidecar) checkDatabase() []Problem {
	problems := checkDSN("database.url", c.Database.URL)
	if c.Database.ListenURL != "" {
		problems = append(problems, checkDSN("database.listen_url", c.Database.ListenURL)...)
	}

	return problems
}

// checkDSN says what keeps the driver from taking a connection string.
func checkDSN(key string, dsn DSN) []Problem {
	parsed, err := pgxpool.ParseConfig(dsn.Reveal())
	if err == nil && namesParameters(parsed) {
		return nil
	}
	if dsn == "" {
		return []Problem{{
			Key: key, What: "is not set, and the PG* variables don't make a connection string: " + afterQuote(err),
			Advice: "set " + Field{Key: key}.Env() + ", or correct the PG* variables",
		}}
	}

	// The driver's words may quote the password, so they are asked for about the
	// redacted string. When that is fine, the password is the trouble.
	p := Problem{
		Key: key, Value: dsn.String(), What: "is not a Postgres connection string",
		Advice: "write postgres://user:password@host:5432/db with /, ?, #, @ and % in the password percent-encoded, or host=… user=… password=…",
	}
	if _, err := pgxpool.ParseConfig(dsn.String()); err != nil {
		p.What += ": " + afterQuote(err)
	}

	return []Problem{p}
}

// namesParameters reports whether all parameters for the server have names that can be some. The driver takes
// "db.example.com:5432/app?sslmode=disable" for one named "db.example.com:5432/app?sslmode", and connects to its default.
func namesParameters(parsed *pgxpool.Config) bool {
	for name := range parsed.ConnConfig.RuntimeParams {
		if !isParameterName(name) {
			return false
		}
	}

	return true
}

// afterQuote drops the connection string that the driver's error begins with.
func afterQuote(err error) string {
	text := err.Error()
	if at := strings.LastIndex(text, "`: "); at >= 0 {
		return text[at+len("`: "):]
	}

	return text
}

func (c *Sidecar) checkApp() []Problem {
	var problems []Problem
	switch c.App.Protocol {
	case ProtocolHTTP:
	case ProtocolGRPC:
		if what := wrongWithListen(c.App.Listen); what != "" {
			problems = append(problems, c.problem("app.listen", what, "write 127.0.0.1:9465 or unix:///run/sched.sock"))
		}
	case ProtocolExec:
		if len(c.App.Command) == 0 || c.App.Command[0] == "" {
			problems = append(problems, c.problem("app.command", "is empty, and app.protocol is exec", "name the command that works on one task"))
		}
	default:
		problems = append(problems, c.problem("app.protocol", "must be http, grpc or exec", ""))
	}
	if what := wrongWithAppURL(c.App.URL); what != "" {
		p := c.problem("app.url", what, "write http://host:port, https://host:port or unix:///run/app.sock; h2c://host:port or h2c+unix:///run/app.sock for an app that speaks HTTP/2")
		if u, err := url.Parse(c.App.URL); err == nil && u.User != nil {
			p.Value, p.Advice = u.Redacted(), "leave it out: app.secrets are how the app knows its sidecar"
		}
		problems = append(problems, p)
	}
	if path := c.App.HealthPath; path != "" && !strings.HasPrefix(path, "/") {
		problems = append(problems, c.problem("app.health_path", "must start with /", "write /"+path))
	}
	for i, s := range c.App.Secrets {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(s.Reveal(), secretPrefix))
		if err != nil || !strings.HasPrefix(s.Reveal(), secretPrefix) || len(key) < minSecretBytes || len(key) > maxSecretBytes {
			problems = append(problems, c.problem("app.secrets",
				fmt.Sprintf("number %d is not %s and the base64 of %d to %d bytes", i+1, secretPrefix, minSecretBytes, maxSecretBytes),
				`make one: echo "whsec_$(head -c 32 /dev/urandom | base64)"`))
		}
	}

	return problems
}

// wrongWithListen says what keeps a text from being where sessions are opened.
func wrongWithListen(text string) string {
	if socket, ok := strings.CutPrefix(text, "unix://"); ok {
		if !strings.HasPrefix(socket, "/") {
			return "names no absolute path of a socket"
		}

		return ""
	}
	host, _, err := net.SplitHostPort(text)
	if err != nil {
		return "is neither unix:///path/to.sock nor host:port"
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "can be reached from other machines, and nobody logs in there"
	}

	return ""
}

// wrongWithAppURL says what keeps a text from being the app's URL.
func wrongWithAppURL(text string) string {
	if socket, ok := strings.CutPrefix(strings.TrimPrefix(text, "h2c+"), "unix://"); ok {
		if !strings.HasPrefix(socket, "/") {
			return "names no absolute path of a socket"
		}

		return ""
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "is not a URL"
	case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "h2c":
		return "must start with http://, https://, unix:///, h2c:// or h2c+unix:///"
	case u.Hostname() == "":
		return "has no host"
	case u.User != nil:
		return "must not hold a user or password"
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return "must end before ? and #: the task's kind is put behind it"
	default:
		return ""
	}
}

func (c *Sidecar) checkNames() []Problem {
	var problems []Problem
	check := func(key string, names []string, pattern string, longest int, rule string) {
		re := regexp.MustCompile(pattern)
		for i, name := range names {
			if len(name) > longest || !re.MatchString(name) {
				problems = append(problems, c.problem(key, fmt.Sprintf("%q must be %s, at most %d characters", name, rule, longest), "correct it, or leave it out"))
			}
			if slices.Index(names, name) < i {
				problems = append(problems, c.problem(key, fmt.Sprintf("names %q twice", name), "keep one"))
			}
		}
	}
	check("queues", c.Queues, queuePattern, maxQueueName, "lower-case letters and digits with single - or _ between them")
	check("kinds", c.Kinds, kindPattern, maxKindName, "letters, digits and any of _-[]<>/.·:+, the first a letter, digit or _")

	return problems
}

func (c *Sidecar) checkLabels() []Problem {
	var problems []Problem
	if len(c.Labels) > maxLabels {
		problems = append(problems, c.problem("labels", fmt.Sprintf("are %d; at most %d are allowed", len(c.Labels), maxLabels), "drop those no selector asks for"))
	}
	for _, key := range sortedKeys(c.Labels) {
		if key == "" || len(key) > maxLabelKey || strings.ContainsFunc(key, notInLabelKey) {
			problems = append(problems, c.problem("labels", fmt.Sprintf("key %q must be 1 to %d printable characters without space, = or ,", key, maxLabelKey), "rename it"))
		}
		if value := c.Labels[key]; len(value) > maxLabelValue || strings.ContainsFunc(value, unicode.IsControl) {
			problems = append(problems, c.problem("labels", fmt.Sprintf("the value of %q must be at most %d printable characters", key, maxLabelValue), "shorten it"))
		}
	}

	return problems
}

func notInLabelKey(r rune) bool {
	return r == '=' || r == ',' || unicode.IsSpace(r) || !unicode.IsPrint(r)
}

// checkOrder holds related values to each other.
func (c *Sidecar) checkOrder() []Problem {
	var problems []Problem
	if c.Slots.Initial > c.Slots.Ceiling {
		problems = append(problems, c.problem("slots.initial", fmt.Sprintf("is above slots.ceiling, %d", c.Slots.Ceiling), "lower it, or raise the ceiling"))
	}
	if c.Retry.Cap < c.Retry.Base {
		problems = append(problems, c.problem("retry.cap", "is below retry.base, "+showDuration(c.Retry.Base), "raise it, or lower the base"))
	}
	if least := 3 * c.HeartbeatInterval; c.FenceAfter < least {
		problems = append(problems, c.problem("fence_after", "must be at least three times heartbeat_interval, "+showDuration(least), "raise it, or beat more often"))
	}
	if c.FenceAfter >= c.EvictAfter {
		problems = append(problems, c.problem("fence_after", "must be less than evict_after, "+showDuration(c.EvictAfter),
			"a sidecar has to stop before its tasks run elsewhere: lower it, or raise evict_after"))
	}

	return problems
}

func (c *Sidecar) checkAdmin() []Problem {
	host, port, err := net.SplitHostPort(c.Admin.Addr)
	if err != nil {
		return []Problem{c.problem("admin.addr", "must be host:port", "write 127.0.0.1:9464, or 127.0.0.1:0 for a free port")}
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return []Problem{c.problem("admin.addr", "has a port that is not 0 to 65535", "write 127.0.0.1:9464, or 127.0.0.1:0 for a free port")}
	}
	if !c.Admin.Expose && !isLoopback(host) {
		return []Problem{c.problem("admin.addr", "can be reached from other machines, and it has no login",
			"write 127.0.0.1:"+port+", or set admin.expose to true and guard the port by the network")}
	}

	return nil
}

// Who guesses has as long as they like: what is asked for has to be long.
const (
	minConsoleToken    = 16
	minConsolePassword = 12
)

func (c *Sidecar) checkConsole() []Problem {
	var problems []Problem
	if n := len(strings.TrimSpace(c.Console.Token.Reveal())); c.Console.Token != "" && n < minConsoleToken {
		problems = append(problems, c.problem("console.token", fmt.Sprintf("has fewer than %d characters", minConsoleToken), "make one: head -c 24 /dev/urandom | base64"))
	}
	if n := len(c.Console.Password); n > 0 && n < minConsolePassword {
		problems = append(problems, c.problem("console.password", fmt.Sprintf("has fewer than %d characters", minConsolePassword), "make one: head -c 24 /dev/urandom | base64"))
	}
	if strings.Contains(c.Console.User, ":") || strings.ContainsFunc(c.Console.User, unicode.IsControl) {
		problems = append(problems, c.problem("console.user", "must not hold : or control characters", "choose another name"))
	}
	if c.Console.RiverUIURL != "" {
		if u, err := url.Parse(c.Console.RiverUIURL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
			problems = append(problems, Problem{Key: "console.river_ui_url", What: "must be http:// or https:// and a host, without user or password", Advice: "write http://127.0.0.1:8089/"})
		}
	}

	return problems
}

// isLoopback reports whether only this machine reaches a host. An empty one
// becomes loopback, see [Admin.ListenAddr].
func isLoopback(host string) bool {
	ip := net.ParseIP(host)

	return host == "" || host == "localhost" || ip != nil && ip.IsLoopback()
}

func (c *Sidecar) checkLog() []Problem {
	var problems []Problem
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, c.Log.Level) {
		problems = append(problems, c.problem("log.level", "must be debug, info, warn or error", ""))
	}
	if !slices.Contains([]string{ElasticOff, ElasticObserve, ElasticOn}, c.Elastic) {
		problems = append(problems, c.problem("elastic", "must be off, observe or on", ""))
	}
	if !slices.Contains([]string{"text", "json"}, c.Log.Format) {
		problems = append(problems, c.problem("log.format", "must be text or json", ""))
	}

	return problems
}
