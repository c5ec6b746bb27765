package riverui_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/stretchr/testify/require"
	"riverqueue.com/riverui"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

// riverUI is River UI as its users mount it: a handler over an insert-only client.
type riverUI struct {
	handler http.Handler
	stop    func() // ends its background queries
}

func newUI(t *testing.T, pool *pgxpool.Pool) *riverUI {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Schema: "sched", Logger: logger})
	require.NoError(t, err)
	handler, err := riverui.NewHandler(&riverui.HandlerOpts{Endpoints: riverui.NewEndpoints(client, nil), Logger: logger})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	require.NoError(t, handler.Start(ctx))
	t.Cleanup(stop)
	return &riverUI{handler, stop}
}

func (u *riverUI) send(t *testing.T, method, path, body string) (status int, reply string) {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	recorder := httptest.NewRecorder()
	u.handler.ServeHTTP(recorder, request)
	return recorder.Code, recorder.Body.String()
}

// do sends a request that must succeed.
func (u *riverUI) do(t *testing.T, method, path, body string) string {
	t.Helper()
	status, reply := u.send(t, method, path, body)
	require.Equal(t, http.StatusOK, status, "%s %s: %s", method, path, reply)
	return reply
}

func (u *riverUI) get(t *testing.T, path string, into any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(u.do(t, http.MethodGet, path, "")), into))
}

// asRiverClient is a pool of a login role with the rights that docs/river.md
// grants, taken from that page.
func asRiverClient(t *testing.T, owner *pgxpool.Pool) *pgxpool.Pool {
	t.Helper()
	page, err := os.ReadFile("../../../docs/river.md")
	require.NoError(t, err)
	block := regexp.MustCompile("(?s)```sql\n(CREATE ROLE sched_river .*?)```").FindSubmatch(page)
	require.NotNil(t, block, "docs/river.md lists the grants")
	const role = "river_ui_test"
	grants := strings.ReplaceAll(string(block[1]), "sched_river", role)
	_, err = owner.Exec(t.Context(), grants)
	require.NoError(t, err)
	_, err = owner.Exec(t.Context(), `ALTER ROLE `+role+` LOGIN PASSWORD 'p'`)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := owner.Exec(context.Background(), `DROP OWNED BY `+role+`; DROP ROLE `+role)
		require.NoError(t, err)
	})
	config, err := pgxpool.ParseConfig(pgtest.DSN(owner))
	require.NoError(t, err)
	config.ConnConfig.User, config.ConnConfig.Password = role, "p"
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}
