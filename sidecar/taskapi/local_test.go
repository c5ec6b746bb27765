package taskapi_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/sidecar/taskapi"
)

func TestWebPagesAreRefused(t *testing.T) {
	t.Parallel()
	for _, header := range []http.Header{
		{"Origin": {"http://127.0.0.1:7700"}},
		{"Origin": {"null"}},
		{"Origin": {""}},
		{"Sec-Fetch-Site": {"same-origin"}},
		{"Sec-Fetch-Site": {"none"}},
	} {
		for _, method := range []string{"POST", "OPTIONS"} {
			s := &settler{}
			response := call(s, taskapi.Options{}, method, "/v1/tasks/42/cancel", "", func(r *http.Request) {
				for name, values := range header {
					r.Header[name] = values
				}
			})
			requireProblem(t, response, 403, "not_local")
			require.Zero(t, s.calls)
			require.NotContains(t, response.Header(), "Access-Control-Allow-Origin")
		}
	}
}

func TestHosts(t *testing.T) {
	t.Parallel()
	options := taskapi.Options{AllowedHosts: []string{"sidecar"}}
	for host, allowed := range map[string]bool{
		"localhost":               true,
		"LocalHost:7700":          true,
		"127.0.0.1":               true,
		"127.8.8.8:7700":          true,
		"[::1]":                   true,
		"[::1]:7700":              true,
		"[::ffff:127.0.0.1]:7700": true,
		"sidecar:7700":            true,
		"Sidecar":                 true,

		"":                         false,
		"evil.example":             false,
		"evil.example:7700":        false,
		"localhost.evil.example":   false,
		"127.0.0.1.evil.example":   false,
		"sidecar.evil.example":     false,
		"192.168.0.7:7700":         false,
		"0.0.0.0:7700":             false,
		"[fe80::1]":                false,
		"2130706433":               false,
		"localhost:7700:localhost": false,
	} {
		s := &settler{}
		response := call(s, options, "POST", "/v1/tasks/42/cancel", "", func(r *http.Request) { r.Host = host })
		if allowed {
			require.Equal(t, http.StatusNoContent, response.Code, host)
			continue
		}
		require.Contains(t, requireProblem(t, response, 403, "not_local"), "Host header", host)
		require.Zero(t, s.calls)
	}
	requireProblem(t, call(&settler{}, taskapi.Options{}, "POST", "/v1/tasks/42/cancel", "", func(r *http.Request) { r.Host = "sidecar" }), 403, "not_local")
}
