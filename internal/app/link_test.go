package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// An app that answers 202 settles where the request says.
func TestAcceptedTaskIsSettledWhereItsRequestSays(t *testing.T) {
	t.Parallel()
	type accepted struct{ api, lease string }
	tasks := make(chan accepted, 1)
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tasks <- accepted{r.Header.Get("Sched-Api"), r.Header.Get("Sched-Lease")}
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(app.Close)
	r := prepare(t, "")
	r.opts.App, r.cfg.App.URL, r.cfg.App.SendAPI = nil, app.URL, true
	r.start(t)
	id := r.enqueue(t, "'long'")
	task := <-tasks
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, task.api+"/complete", strings.NewReader(`{"late": true}`))
	require.NoError(t, err)
	request.Header.Set("Sched-Lease", task.lease)
	response, err := app.Client().Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusNoContent, response.StatusCode)
	require.JSONEq(t, `{"late": true}`, r.requireTask(t, id, "completed"))
}

func TestLocalAddr(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"127.0.0.1:9464": "127.0.0.1:9464", "[::1]:9464": "[::1]:9464", "0.0.0.0:1": "127.0.0.1:1", "[::]:2": "127.0.0.1:2", "10.1.2.3:4": "10.1.2.3:4",
	} {
		require.Equal(t, want, localAddr(addr), addr)
	}
}
