package console

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	cookieName  = "sched_console"
	sessionLife = 12 * time.Hour
	defaultUser = "sched"
	// maxFormBytes bounds what a form of ours may hold.
	maxFormBytes = 8 << 10
)

// access decides who may look.
type access struct {
	token, user, password string
	checkHost             bool
	now                   func() time.Time
	origin                *http.CrossOriginProtection
}

func newAccess(config Config, now func() time.Time) *access {
	// What surrounds a token in a file, mostly the end of its line, can be sent in no header and is typed in no form.
	a := &access{token: strings.TrimSpace(config.Token), user: config.User, password: config.Password, now: now, origin: http.NewCrossOriginProtection()}
	if a.user == "" {
		a.user = defaultUser
	}
	// With a login, a site that has its name point here learns nothing: browsers keep
	// what they log in with to the name that it was given for.
	a.checkHost = !a.asks()
	return a
}

// asks reports whether one has to log in.
func (a *access) asks() bool { return a.token != "" || a.password != "" }

// sameOrigin refuses what another site's page sends, and, where nobody logs in,
// requests by a name that is not this machine's.
func (a *access) sameOrigin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.checkHost && !isLoopbackHost(r.Host) {
			http.Error(w, "The console answers to localhost and 127.0.0.1 only, and was asked for "+strconv.Quote(r.Host)+
				". To reach it by another name set console.token or console.password.", http.StatusMisdirectedRequest)
			return
		}
		if err := a.origin.Check(r); err != nil {
			http.Error(w, "This form was sent by a page of another site.", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func isLoopbackHost(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// guard lets through who is logged in, and shows others how to.
func (a *access) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.allowed(r) {
			next.ServeHTTP(w, r)
			return
		}
		page := r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html")
		switch {
		case a.token != "" && page && r.Header.Get("Authorization") == "":
			http.Redirect(w, r, Path+"/login?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
			return
		case a.password != "":
			w.Header().Add("WWW-Authenticate", `Basic realm="sched console", charset="UTF-8"`)
		}
		if a.token != "" {
			w.Header().Add("WWW-Authenticate", `Bearer realm="sched console"`)
		}
		http.Error(w, "Log in first.", http.StatusUnauthorized)
	})
}

func (a *access) allowed(r *http.Request) bool {
	if !a.asks() {
		return true
	}
	if a.password != "" {
		if user, password, ok := r.BasicAuth(); ok {
			// Both are compared, whatever the first one gives.
			if same(user, a.user)&same(password, a.password) == 1 {
				return true
			}
		}
	}
	if a.token == "" {
		return false
	}
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && same(bearer, a.token) == 1 {
		return true
	}
	cookie, err := r.Cookie(cookieName)
	return err == nil && a.sessionHolds(cookie.Value)
}

// same compares in a time that tells nothing of either, not even their lengths.
func same(a, b string) int {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:])
}

// session is a cookie's value: when it ends, and proof that whoever made it knows
// the token. Any sidecar with the same token takes it.
func (a *access) session(ends time.Time) string {
	until := strconv.FormatInt(ends.Unix(), 10)
	return until + "." + a.proof(until)
}

func (a *access) proof(until string) string {
	mac := hmac.New(sha256.New, []byte(a.token))
	mac.Write([]byte("sched console session until " + until))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func (a *access) sessionHolds(value string) bool {
	until, proof, ok := strings.Cut(value, ".")
	if !ok || same(proof, a.proof(until)) != 1 {
		return false
	}
	seconds, err := strconv.ParseInt(until, 10, 64)
	return err == nil && a.now().Before(time.Unix(seconds, 0))
}

type loginBody struct {
	Next  string
	Wrong bool
	Basic bool // a user and password would do as well
}

func (c *Console) loginPage(w http.ResponseWriter, r *http.Request) {
	next := safeNext(r.URL.Query().Get("next"))
	if c.access.token == "" || c.access.allowed(r) {
		http.Redirect(w, r, next, http.StatusSeeOther)
		return
	}
	c.render(w, r, http.StatusOK, "login", page{Title: "Log in", Bare: true, Body: loginBody{Next: next, Basic: c.access.password != ""}})
}

func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxFormBytes)
	if err := r.ParseForm(); err != nil {
		http.Error(w, "This is not the form of the login page.", http.StatusBadRequest)
		return
	}
	next := safeNext(r.PostForm.Get("next"))
	if c.access.token == "" || same(strings.TrimSpace(r.PostForm.Get("token")), c.access.token) != 1 {
		c.render(w, r, http.StatusUnauthorized, "login", page{Title: "Log in", Bare: true, Body: loginBody{Next: next, Wrong: true, Basic: c.access.password != ""}})
		return
	}
	http.SetCookie(w, c.cookie(r, c.access.session(c.access.now().Add(sessionLife)), int(sessionLife.Seconds())))
	http.Redirect(w, r, next, http.StatusSeeOther)
}

func (c *Console) logout(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, c.cookie(r, "", -1))
	http.Redirect(w, r, Path+"/login", http.StatusSeeOther)
}

func (c *Console) cookie(r *http.Request, value string, maxAge int) *http.Cookie {
	secure := r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"
	return &http.Cookie{
		Name: cookieName, Value: value, Path: Path, MaxAge: maxAge,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: secure,
	}
}

// safeNext is where to go after the login: a page of ours, whatever was asked for.
func safeNext(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(u.Path, Path+"/") || strings.ContainsAny(next, "\\\r\n") {
		return Path + "/"
	}
	return (&url.URL{Path: u.Path, RawQuery: u.RawQuery}).String()
}
