package httpapp

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for says, config := range map[string]Config{
		"write it like http://127.0.0.1:8080/tasks":                         {URL: "http://[::1"},
		"has no scheme this sidecar speaks":                                 {URL: "localhost:8080"},
		"start it with http://, https://, h2c://, unix:/// or h2c+unix:///": {URL: ""},
		`"ftp://app" has no scheme`:                                         {URL: "ftp://app"},
		"names no host":                                                     {URL: "http://:8080"},
		"names a host that isn't ASCII":                                     {URL: "http://bücher.example"},
		"holds a query or fragment":                                         {URL: "http://app/tasks?x=1"},
		"remove it, the task's kind is appended":                            {URL: "http://app/tasks#x"},
		"set a secret, so that the app can verify":                          {URL: "http://user:hunter2@app/"},
		"names no absolute socket path":                                     {URL: "unix://run/app.sock"},
		"write it like unix:///run/app.sock":                                {URL: "unix://"},
		"has 108 bytes":                                                     {URL: "unix:///" + strings.Repeat("s", 107)},
		"the path after the socket":                                         {URL: "unix:///run/app.sock:/%zz"},
		`unix:///run/app.sock:/x?y=1" holds a query or fragment`:            {URL: "unix:///run/app.sock:/x?y=1"},
		`the CloudEvents source ":" is no URI reference`:                    {URL: "http://app", Source: ":"},
		`the CloudEvents source "/é" is no URI reference`:                   {URL: "http://app", Source: "/é"},
		"the user agent":                                                    {URL: "http://app", UserAgent: "a\nb"},
		`the health path "healthz" is no path; start it with one`:           {URL: "http://app", HealthPath: "healthz"},
		`the health path "//evil/x" is no path`:                             {URL: "http://app", HealthPath: "//evil/x"},
		"the response limit is negative; set a positive one":                {URL: "http://app", MaxResponseBytes: -1},
		"set at most 267386880, Postgres stores no more":                    {URL: "http://app", MaxResponseBytes: 1 << 62},
		"the health timeout is negative":                                    {URL: "http://app", HealthTimeout: -1},
		"the dial timeout is negative":                                      {URL: "http://app", DialTimeout: -1},
		"the limit of connections is negative":                              {URL: "http://app", MaxConns: -1},
		"the limit of idle connections is negative":                         {URL: "http://app", MaxIdleConns: -1},
		"the idle timeout of connections is negative":                       {URL: "http://app", IdleConnTimeout: -1},
		"the health path \"x\" is no path; start it with one slash,":        {URL: "http://app", HealthPath: "x", DialTimeout: -1},
	} {
		_, err := New(config)
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func TestNewNamesEveryMistake(t *testing.T) {
	t.Parallel()
	_, err := New(Config{URL: "app", Secrets: []string{"x"}, HealthPath: "x", DialTimeout: -1})
	for _, says := range []string{"the app's URL", "secret 1", "the health path", "the dial timeout"} {
		require.ErrorContains(t, err, says)
	}
}

func TestParseTarget(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]target{
		"http://app":                     {"tcp", "app:80", "http", "app", "", "", false},
		"HTTPS://app/":                   {"tcp", "app:443", "https", "app", "", "", false},
		"http://[::1]:8080/a/b/":         {"tcp", "[::1]:8080", "http", "[::1]:8080", "/a/b", "", false},
		"http://[fe80::1%25lo]:81":       {"tcp", "[fe80::1%lo]:81", "http", "[fe80::1]:81", "", "", false},
		"http://app/a%2Fb":               {"tcp", "app:80", "http", "app", "/a/b", "", false},
		"unix:///run/app.sock":           {"unix", "/run/app.sock", "http", "localhost", "", "", false},
		"unix:///run/app.sock:/":         {"unix", "/run/app.sock", "http", "localhost", "", "", false},
		"unix:///run/a:b.sock:/v1/tasks": {"unix", "/run/a:b.sock", "http", "localhost", "/v1/tasks", "", false},
		"unix:///run/app.sock:/a%20b/":   {"unix", "/run/app.sock", "http", "localhost", "/a%20b", "", false},
		"h2c://app/tasks":                {"tcp", "app:80", "http", "app", "/tasks", "", true},
		"h2c+unix:///run/app.sock:/x":    {"unix", "/run/app.sock", "http", "localhost", "/x", "", true},
	} {
		got, err := parseTarget(raw)
		require.NoError(t, err, raw)
		want.display = raw
		require.Equal(t, want, got, raw)
	}
}
