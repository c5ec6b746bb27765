package elastic_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/fleettest"
	"github.com/sched-sidecar/sched/internal/pgtest"
)

const (
	ceiling = 32
	start   = 8 // slots at the start
	least   = 2 // elastic_min
)

// app takes a while for each task. It can be turned off and on again at the same
// address, and can turn tasks down.
type app struct {
	t       *testing.T
	address string

	mu      sync.Mutex
	server  *httptest.Server
	refuses bool
}

const work = 50 * time.Millisecond

func newApp(t *testing.T) *app {
	t.Helper()
	a := &app{t: t, address: fleettest.FreeAddress(t)}
	a.on()
	t.Cleanup(a.off)
	return a
}

func (a *app) url() string { return "http://" + a.address }

// on serves, at the address of before, which an outgoing connection may have taken
// for a while.
func (a *app) on() {
	a.t.Helper()
	var lc net.ListenConfig
	var listener net.Listener
	var err error
	fleettest.Eventually(a.t, fleettest.Soon, func() bool {
		listener, err = lc.Listen(a.t.Context(), "tcp", a.address)
		return err == nil
	}, func() string { return err.Error() })
	server := httptest.NewUnstartedServer(a)
	require.NoError(a.t, server.Listener.Close())
	server.Listener = listener
	server.Start()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.server = server
}

func (a *app) off() {
	a.mu.Lock()
	server := a.server
	a.server = nil
	a.mu.Unlock()
	if server != nil {
		server.CloseClientConnections()
		server.Close()
	}
}

func (a *app) refuse(yes bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refuses = yes
}

func (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil || r.Method != http.MethodPost {
		return
	}
	a.mu.Lock()
	refuses := a.refuses
	a.mu.Unlock()
	if refuses {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	timer := time.NewTimer(work)
	defer timer.Stop()
	select {
	case <-timer.C:
		w.WriteHeader(http.StatusNoContent)
	case <-r.Context().Done():
	}
}

// fleet is a database and the sidecars on it.
type fleet struct {
	t   *testing.T
	db  *pgxpool.Pool
	dsn string
}

// newFleet is a fleet whose slots shrink soon.
func newFleet(t *testing.T) *fleet {
	t.Helper()
	pool := pgtest.New(t)
	f := &fleet{t: t, db: pool, dsn: pgtest.DSN(pool)}
	f.set("elastic_cooldown_seconds", "2")
	return f
}

// start runs a sidecar that sizes itself, and returns its worker's id.
func (f *fleet) start(a *app) (s *fleettest.Sidecar, worker string) {
	f.t.Helper()
	s = fleettest.Start(f.t, programs.Sidecar, f.dsn, a.url(), fleettest.Quick().Plus(fleettest.Settings{
		"SCHED_ELASTIC": "on", fleettest.SetSlots: fmt.Sprint(ceiling),
	}))
	return s, s.Worker(f.t, f.db)
}

func one[T any](f *fleet, sql string, args ...any) T {
	f.t.Helper()
	rows, err := f.db.Query(f.t.Context(), sql, args...)
	require.NoError(f.t, err)
	value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	require.NoError(f.t, err, sql)
	return value
}

func (f *fleet) set(key, value string) {
	f.t.Helper()
	_, err := f.db.Exec(f.t.Context(), "UPDATE sched.setting SET value = $2::jsonb WHERE key = $1", key, value)
	require.NoError(f.t, err)
}

func (f *fleet) enqueue(n int) {
	f.t.Helper()
	require.Equal(f.t, n, one[int](f, `SELECT count(*)::int FROM sched.enqueue_many((
		SELECT jsonb_agg(jsonb_build_object('kind', 'load')) FROM generate_series(1, $1::int)))`, n))
}

// await waits until a query for a boolean says true.
func (f *fleet) await(within time.Duration, otherwise, sql string, args ...any) {
	f.t.Helper()
	fleettest.Eventually(f.t, within, func() bool { return one[bool](f, "SELECT coalesce(("+sql+"), false)", args...) },
		func() string { return otherwise + ": " + f.decisions() })
}

// slots is how many a worker was told to have last.
func (f *fleet) slots(worker string) int {
	f.t.Helper()
	return one[int](f, `SELECT coalesce((SELECT to_value::int FROM sched.decision
		WHERE what = 'slots' AND subject = $1 ORDER BY at DESC, id DESC LIMIT 1), $2)`, worker, start)
}

// awaitSlots waits until a decision gave a worker that many, as SQL compares.
func (f *fleet) awaitSlots(worker, compared string, n int) {
	f.t.Helper()
	f.await(2*fleettest.Soon, fmt.Sprintf("slots are not %s %d", compared, n), `SELECT to_value::int `+compared+` $2 FROM sched.decision
		WHERE what = 'slots' AND subject = $1 ORDER BY at DESC, id DESC LIMIT 1`, worker, n)
}

func (f *fleet) decisions() string {
	return one[string](f, `SELECT coalesce(string_agg(format('%s %s: %s > %s %s', at, subject, from_value, to_value, reason), E'\n' ORDER BY at), 'none')
		FROM sched.decision WHERE what = 'slots'`)
}
