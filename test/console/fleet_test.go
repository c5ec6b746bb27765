//go:build verify

package console_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/devpg"
	"github.com/sched-sidecar/sched/internal/fleettest"
	"github.com/sched-sidecar/sched/internal/pgtest"
)

// fleet is a database with sidecars at work on it, as a shop might have them.
type fleet struct {
	server   *devpg.Server
	db       *pgxpool.Pool
	sidecars []*fleettest.Sidecar
	// console is where the first sidecar's is.
	console string
}

// newFleet starts sidecars with labels, queues of several kinds, and a stream of
// tasks that comes and goes like a tide, until the test ends.
func newFleet(t *testing.T) *fleet {
	t.Helper()
	server := pgtest.Server(t) // of its own, to be killed
	f := &fleet{server: server, db: pgtest.NewOn(t, server)}
	f.prepare(t)
	app := httptest.NewServer(http.HandlerFunc(work))
	t.Cleanup(app.Close)
	quick := fleettest.Settings{fleettest.SetHeartbeat: "1s", fleettest.SetFence: "5s", fleettest.SetEvict: "8s", "SCHED_ELASTIC": "on"}
	for _, each := range []struct{ slots, labels string }{
		{"16", "hostname=web-1,zone=eu-1"},
		{"16", "hostname=web-2,zone=eu-2"},
		{"8", "hostname=gpu-1,zone=eu-1,gpu=a100"},
		{"12", "hostname=web-3,zone=eu-2"},
	} {
		f.sidecars = append(f.sidecars, fleettest.Start(t, programs.Sidecar, f.server.SocketDSN("postgres"), app.URL, quick.Plus(fleettest.Settings{
			fleettest.SetSlots: each.slots, fleettest.SetLabels: each.labels, "SCHED_CONSOLE_RIVER_UI_URL": "http://127.0.0.1:8089/",
		})))
	}
	_, err := f.db.Exec(t.Context(), "UPDATE sched.worker SET hostname = labels ->> 'hostname'") // they are all on one machine
	require.NoError(t, err)
	f.console = f.sidecars[0].URL() + "/console/"
	fleettest.Eventually(t, fleettest.Leaderless, func() bool {
		var led bool
		return f.db.QueryRow(t.Context(), "SELECT computed_at > now() - interval '5 seconds' FROM sched.fleet").Scan(&led) == nil && led
	}, func() string { return "nobody leads" })
	f.feed(t)
	return f
}

// prepare makes what people would have configured.
func (f *fleet) prepare(t *testing.T) {
	t.Helper()
	for _, statement := range []string{
		`INSERT INTO sched.kind (kind, queue, selector) VALUES ('render_preview', 'render', '{"gpu": "a100"}'), ('train_model', 'train', '{"gpu": "h100"}')`,
		`INSERT INTO sched.kind (kind, queue, rate) VALUES ('send_receipt', 'mail', 60)`,
		`INSERT INTO sched.kind (kind, queue) VALUES ('export_ledger', 'reports'), ('charge_card', 'payments')`,
	} {
		_, err := f.db.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
}

// feed enqueues until the test ends.
func (f *fleet) feed(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			tide := 1 + math.Sin(float64(n)/40)
			_, err := f.db.Exec(ctx, `SELECT
				(SELECT count(sched.enqueue('charge_card', jsonb_build_object('order', $1 * 100 + i, 'amount', 12.5), batch => 'november')) FROM generate_series(1, $2::int) AS i),
				(SELECT count(sched.enqueue('send_receipt', jsonb_build_object('order', $1 * 100 + i, 'to', 'ann@example.com'))) FROM generate_series(1, $3::int) AS i),
				(SELECT count(sched.enqueue('render_preview', jsonb_build_object('page', i))) FROM generate_series(1, $4::int) AS i)`,
				n, int(3+7*tide), int(1+4*tide), n%5/3)
			if err == nil && n%10 == 0 {
				_, err = f.db.Exec(ctx, `SELECT sched.enqueue('export_ledger', '{"month": "2030-01"}'),
					CASE WHEN $1 < 40 THEN sched.enqueue('train_model', '{"epochs": 3}') END, sched.enqueue('sync_stock', '{}', run_at => now() + interval '1 hour')`, n)
			}
			if err != nil {
				continue // Postgres is away for a part of the test
			}
		}
	})
	t.Cleanup(func() {
		stop()
		done.Wait()
	})
}

// work is the app: it takes its time, and fails now and then.
func work(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		return
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	sum := fnv.New32a()
	_, _ = io.WriteString(sum, r.Header.Get("Sched-Task-Id")+r.Header.Get("Sched-Attempt"))
	dice := sum.Sum32()
	kind := strings.TrimPrefix(r.URL.Path, "/")
	base := time.Duration(map[string]int{"charge_card": 90, "send_receipt": 40, "render_preview": 400, "export_ledger": 900}[kind]) * time.Millisecond
	timer := time.NewTimer(base/2 + base*time.Duration(dice%100)/100)
	defer timer.Stop()
	select {
	case <-r.Context().Done():
		return
	case <-timer.C:
	}
	switch {
	case kind == "charge_card" && dice%23 == 0:
		http.Error(w, "card processor: connection reset by peer", http.StatusBadGateway)
	case kind == "export_ledger" && dice%3 == 0:
		http.Error(w, "ledger 2030-01 has no closing balance: <refusing> to export", http.StatusUnprocessableEntity)
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"ok": true, "took_ms": %d}`, base.Milliseconds())
	}
}
