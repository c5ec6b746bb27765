package console_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/sidecar/console"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// bundle is a console that is served, and somebody who looks at it.
type bundle struct {
	t      *testing.T
	pool   *pgxpool.Pool
	url    string
	client *http.Client
}

// setup serves a console over a database of the test's own.
func setup(t *testing.T, change ...func(*console.Config)) *bundle {
	t.Helper()
	return serve(t, pgtest.New(t), change...)
}

func serve(t *testing.T, pool *pgxpool.Pool, change ...func(*console.Config)) *bundle {
	t.Helper()
	config := console.Config{Pool: pool, Connections: 2, Loopback: true, Version: "v1", Host: "here", Logger: slog.New(slog.DiscardHandler)}
	for _, each := range change {
		each(&config)
	}
	c, err := console.New(config)
	require.NoError(t, err)
	server := httptest.NewServer(c.Handler())
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	b := &bundle{t: t, pool: pool, url: server.URL, client: &http.Client{Jar: jar, Transport: &http.Transport{}}}
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
		b.client.CloseIdleConnections()
		server.Close()
	})
	return b
}

func (b *bundle) exec(sql string, args ...any) {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), sql, args...)
	require.NoError(b.t, err, sql)
}

// answer is a page as somebody gets it.
type answer struct {
	status int
	header http.Header
	body   string
	root   *html.Node
}

func (b *bundle) request(method, path string, form url.Values, header http.Header) answer {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, strings.NewReader(form.Encode()))
	require.NoError(b.t, err)
	r.Header.Set("Accept", "text/html")
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for key, values := range header {
		if key == "Host" {
			r.Host = values[0]
		}
		r.Header[key] = values
	}
	response, err := b.client.Do(r)
	require.NoError(b.t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(b.t, err)
	root, err := html.Parse(strings.NewReader(string(body)))
	require.NoError(b.t, err)
	return answer{response.StatusCode, response.Header, string(body), root}
}

func (b *bundle) get(path string) answer {
	b.t.Helper()
	return b.request(http.MethodGet, path, nil, nil)
}

// page gets a page that must be there.
func (b *bundle) page(path string) answer {
	b.t.Helper()
	a := b.get(path)
	require.Equal(b.t, http.StatusOK, a.status, a.body)
	return a
}

// all returns the elements of a name.
func (a answer) all(name string) []*html.Node {
	var found []*html.Node
	for node := range a.root.Descendants() {
		if node.Type == html.ElementNode && node.Data == name {
			found = append(found, node)
		}
	}
	return found
}

// text is what a person reads of the elements of a name.
func (a answer) text(name string) string {
	var all []string
	for _, node := range a.all(name) {
		var b strings.Builder
		for each := range node.Descendants() {
			if each.Type == html.TextNode {
				b.WriteString(each.Data + " ")
			}
		}
		all = append(all, strings.Join(strings.Fields(b.String()), " "))
	}
	return strings.Join(all, "\n")
}

func attr(node *html.Node, key string) string {
	for _, each := range node.Attr {
		if each.Key == key {
			return each.Val
		}
	}
	return ""
}
