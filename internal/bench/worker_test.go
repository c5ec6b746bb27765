package bench

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// testApp is an app in this process.
func testApp(t *testing.T, keep bool) *httptest.Server {
	t.Helper()
	r := newRecorder(keep)
	mux := http.NewServeMux()
	r.routes(mux)
	mux.HandleFunc("POST /tasks/{kind}", taskHandler(r, newAppModel(0, 0, 0)))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

func ask(t *testing.T, server *httptest.Server, method, path, id string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader("{}"))
	require.NoError(t, err)
	request.Header.Set("Ce-Id", id)
	response, err := server.Client().Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body)
}

func TestAppTellsWhenEnoughTasksStarted(t *testing.T) {
	t.Parallel()
	app := testApp(t, false)
	waited := make(chan string, 1)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, app.URL+pathWait+"?n=3", http.NoBody)
	require.NoError(t, err)
	go func() {
		defer close(waited)
		response, err := app.Client().Do(request)
		if err != nil {
			return
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		waited <- string(body)
	}()
	for _, id := range []string{"1", "2"} {
		status, _ := ask(t, app, http.MethodPost, "/tasks/k", id)
		require.Equal(t, http.StatusNoContent, status)
	}
	require.Empty(t, waited, "two are not three")
	status, _ := ask(t, app, http.MethodPost, "/tasks/k", "3")
	require.Equal(t, http.StatusNoContent, status)
	require.Equal(t, "3\n", <-waited)

	_, body := ask(t, app, http.MethodGet, pathWait+"?n=2", "")
	require.Equal(t, "3\n", body, "answered at once")
	status, _ = ask(t, app, http.MethodGet, pathWait+"?n=many", "")
	require.Equal(t, http.StatusBadRequest, status)
	_, body = ask(t, app, http.MethodGet, pathStarts, "")
	require.Equal(t, "null\n", body, "times are kept only when asked for")
}

func TestAppKeepsStarts(t *testing.T) {
	t.Parallel()
	app := testApp(t, true)
	status, _ := ask(t, app, http.MethodPost, "/tasks/k", "not a number")
	require.Equal(t, http.StatusBadRequest, status)
	ask(t, app, http.MethodPost, "/tasks/k", "77")
	_, body := ask(t, app, http.MethodGet, pathStarts, "")
	var starts []taskStart
	require.NoError(t, json.Unmarshal([]byte(body), &starts))
	require.Len(t, starts, 1)
	require.EqualValues(t, 77, starts[0].TaskID)
	require.Positive(t, starts[0].Nanos)
}

func TestWorkerEndsWithItsStandardInput(t *testing.T) {
	t.Parallel()
	in, hold := io.Pipe()
	out, write := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- RunWorker(t.Context(), WorkerApp, nil, in, write) }()
	var line struct{ Addr string }
	require.NoError(t, json.NewDecoder(out).Decode(&line))
	require.NotEmpty(t, line.Addr)
	require.NoError(t, hold.Close())
	require.NoError(t, <-ended)
	require.ErrorContains(t, RunWorker(t.Context(), "cook", nil, strings.NewReader(""), io.Discard), `"cook"`)
}

func TestTasksTakeTheirTime(t *testing.T) {
	t.Parallel()
	const work = 50 * time.Millisecond
	handle := taskHandler(newRecorder(false), newAppModel(work, 0, 0))
	call := func(ctx context.Context, kind string) (time.Duration, int) {
		request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/tasks/"+kind, http.NoBody)
		request.SetPathValue("kind", kind)
		request.Header.Set("Ce-Id", "7")
		response := httptest.NewRecorder()
		begin := time.Now()
		handle(response, request)
		return time.Since(begin), response.Code
	}
	took, status := call(t.Context(), workKind)
	require.Equal(t, http.StatusNoContent, status)
	require.GreaterOrEqual(t, took, work)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, status = call(gone, workKind)
	require.NotEqual(t, http.StatusNoContent, status, "nobody is told that it's done")
}
