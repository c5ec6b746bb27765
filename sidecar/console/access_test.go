package console_test

import (
	"log/slog"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/sidecar/console"
)

const token = "correct horse battery staple"

func withToken(c *console.Config) { c.Token, c.Loopback = token, false }

func withPassword(c *console.Config) { c.User, c.Password, c.Loopback = "ann", "hunter2hunter2", false }

func TestOffWhereOthersReachIt(t *testing.T) {
	t.Parallel()
	_, err := console.New(console.Config{Loopback: false, Logger: slog.New(slog.DiscardHandler)})
	require.ErrorIs(t, err, console.ErrUnguarded)
}

// A site that has its own name point to this machine gets nothing.
func TestOtherNamesAreRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for host, status := range map[string]int{
		"localhost": 200, "LOCALHOST:9464": 200, "127.0.0.1:1": 200, "127.9.9.9": 200, "[::1]:9464": 200,
		"evil.example": 421, "localhost.evil.example": 421, "10.0.0.1:9464": 421, "127.0.0.1.evil.example": 421,
	} {
		require.Equal(t, status, b.request(http.MethodGet, "/console/tasks", nil, http.Header{"Host": {host}}).status, host)
	}
	guarded := setup(t, withToken)
	a := guarded.request(http.MethodGet, "/console/tasks", nil, http.Header{"Host": {"sched.example"}, "Authorization": {"Bearer " + token}})
	require.Equal(t, http.StatusOK, a.status, "behind a login any name will do")
}

func TestToken(t *testing.T) {
	t.Parallel()
	b := setup(t, withToken)
	led := b.page("/console/tasks?kind=mail") // to the login page
	require.Contains(t, led.text("main"), "Log in")
	require.NotContains(t, led.body, "There are no tasks yet")
	require.Equal(t, http.StatusUnauthorized, b.request(http.MethodGet, "/console/live?page=overview", nil, http.Header{"Accept": {"text/event-stream"}}).status)
	require.Equal(t, http.StatusUnauthorized, b.request(http.MethodGet, "/console/tasks", nil, http.Header{"Authorization": {"Bearer wrong"}}).status)
	require.Equal(t, http.StatusOK, b.request(http.MethodGet, "/console/tasks", nil, http.Header{"Authorization": {"Bearer " + token}}).status)

	wrong := b.request(http.MethodPost, "/console/login", url.Values{"token": {"guess"}}, nil)
	require.Equal(t, http.StatusUnauthorized, wrong.status)
	require.Contains(t, wrong.text("main"), "That is not the token")
	require.Empty(t, wrong.header.Values("Set-Cookie"))

	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	right := b.request(http.MethodPost, "/console/login", url.Values{"token": {token}, "next": {"/console/tasks?kind=mail"}}, nil)
	require.Equal(t, http.StatusSeeOther, right.status)
	require.Equal(t, "/console/tasks?kind=mail", right.header.Get("Location"))
	cookie := right.header.Get("Set-Cookie")
	require.Contains(t, cookie, "HttpOnly")
	require.Contains(t, cookie, "SameSite=Strict")
	require.Contains(t, cookie, "Path=/console")
	require.NotContains(t, cookie, token)
	require.Contains(t, b.page("/console/tasks").text("main"), "There are no tasks yet")

	out := b.request(http.MethodPost, "/console/logout", nil, nil)
	require.Equal(t, http.StatusSeeOther, out.status)
	require.Equal(t, http.StatusSeeOther, b.get("/console/tasks").status)
}

// A token from a file ends with the end of its line, and nobody types that.
func TestTokenOfAFile(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *console.Config) { c.Token, c.Loopback = " "+token+"\n", false })
	require.Equal(t, http.StatusOK, b.request(http.MethodGet, "/console/tasks", nil, http.Header{"Authorization": {"Bearer " + token}}).status)
	require.NotContains(t, b.request(http.MethodPost, "/console/login", url.Values{"token": {token}}, nil).text("main"), "That is not the token")
}

func TestForgedSessions(t *testing.T) {
	t.Parallel()
	b := setup(t, withToken)
	for _, value := range []string{"", ".", "9999999999.", "9999999999.AAAA", "x.y"} {
		a := b.request(http.MethodGet, "/console/tasks", nil, http.Header{"Cookie": {"sched_console=" + value}})
		require.Contains(t, a.text("main"), "Log in", value)
	}
}

// The login leads to pages of ours only, and takes no form of another site's.
func TestLoginLeadsNowhereElse(t *testing.T) {
	t.Parallel()
	b := setup(t, withToken)
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, next := range []string{"https://evil.example/console/", "//evil.example/console/", "/\\evil.example", "/other", "javascript:alert(1)", "/console/\r\nX: y"} {
		a := b.request(http.MethodPost, "/console/login", url.Values{"token": {token}, "next": {next}}, nil)
		require.Equal(t, "/console/", a.header.Get("Location"), next)
	}
	a := b.request(http.MethodPost, "/console/login", url.Values{"token": {token}}, http.Header{"Sec-Fetch-Site": {"cross-site"}})
	require.Equal(t, http.StatusForbidden, a.status)
	require.Empty(t, a.header.Values("Set-Cookie"))
}

func TestPassword(t *testing.T) {
	t.Parallel()
	b := setup(t, withPassword)
	first := b.get("/console/")
	require.Equal(t, http.StatusUnauthorized, first.status)
	require.Contains(t, first.header.Get("WWW-Authenticate"), "Basic")
	for userinfo, status := range map[*url.Userinfo]int{
		url.UserPassword("ann", "hunter2hunter2"): 200, url.UserPassword("bob", "hunter2hunter2"): 401, url.UserPassword("ann", "guess"): 401, url.User("ann"): 401,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.url+"/console/tasks", nil)
		require.NoError(t, err)
		password, _ := userinfo.Password()
		r.SetBasicAuth(userinfo.Username(), password)
		require.Equal(t, status, b.request(http.MethodGet, "/console/tasks", nil, r.Header).status, userinfo)
	}
	require.Contains(t, b.request(http.MethodGet, "/console/login", nil, nil).header.Get("WWW-Authenticate"), "Basic", "there is no form without a token")
}
