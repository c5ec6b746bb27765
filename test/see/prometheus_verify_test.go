//go:build verify

package see_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/fleettest"
	"github.com/sched-sidecar/sched/internal/pgtest"
)

const (
	// scrapeEvery is often, and rateInterval has several of them, also on a busy machine.
	scrapeEvery  = "1s"
	rateInterval = "20s"
	// dataWithin is how long the slowest series takes: a rate needs two scrapes, the leader
	// looks at storage each 15 s.
	dataWithin = 2 * time.Minute
)

// prometheus is a server that scrapes some targets.
type prometheus struct {
	url    string
	client *http.Client
}

func startPrometheus(t *testing.T, features string, targets ...string) *prometheus {
	t.Helper()
	rules, err := filepath.Abs(rulesFile)
	require.NoError(t, err)
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil,
		"global: {scrape_interval: %s, evaluation_interval: %s}\nrule_files: [%q]\nscrape_configs:\n  - job_name: sched\n    static_configs: [{targets: [%s]}]\n",
		scrapeEvery, scrapeEvery, rules, strings.Join(targets, ", ")), 0o600))
	address := freeAddress(t)
	server := fleettest.Exec(t, program(t, "prometheus"), nil, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--enable-feature="+features)
	p := &prometheus{url: "http://" + address, client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}}
	fleettest.Eventually(t, fleettest.Soon, func() bool { return p.ready(t) || server.HasExited() }, func() string { return server.Log.String() })
	require.False(t, server.HasExited(), server.Log.String())
	return p
}

func freeAddress(t *testing.T) string {
	t.Helper()
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

func (p *prometheus) get(t *testing.T, path string) (int, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+path, http.NoBody)
	require.NoError(t, err)
	response, err := p.client.Do(request)
	if err != nil {
		return 0, []byte(err.Error())
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, body
}

func (p *prometheus) ready(t *testing.T) bool {
	t.Helper()
	status, _ := p.get(t, "/-/ready")
	return status == http.StatusOK
}

// numbers returns the values that a query has now; what is not a number is none.
func (p *prometheus) numbers(t *testing.T, query string) []string {
	t.Helper()
	status, body := p.get(t, "/api/v1/query?query="+url.QueryEscape(query))
	if status == 0 {
		return nil
	}
	require.Equal(t, http.StatusOK, status, "%s: %s", query, body)
	var answer struct {
		Data struct {
			Result []struct {
				Value []any
			}
		}
	}
	require.NoError(t, json.Unmarshal(body, &answer))
	var values []string
	for _, result := range answer.Data.Result {
		if len(result.Value) == 2 && result.Value[1] != "NaN" {
			values = append(values, fmt.Sprint(result.Value[1]))
		}
	}
	return values
}

// shop is an app, and somebody who keeps it busy.
func shop(t *testing.T, pool *pgxpool.Pool) (appURL string) {
	t.Helper()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/broken" {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(app.Close)
	ctx, stop := context.WithCancel(context.Background())
	var busy sync.WaitGroup
	busy.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			// Done at once, later, badly, and by nobody, since no worker has the label.
			_, _ = pool.Exec(ctx, `SELECT sched.enqueue('mail', queue => 'post'), sched.enqueue('page'),
				sched.enqueue('later', run_at => clock_timestamp() + interval '300 milliseconds'),
				sched.enqueue('broken', max_attempts => 2), sched.enqueue('render', selector => '{"gpu": "none"}')`) // another comes soon
		}
	})
	t.Cleanup(func() { stop(); busy.Wait() })
	return app.URL
}

// Every query of the dashboard has an answer in a fleet that works, and every recorded one.
func TestVerify_DashboardShowsAFleet(t *testing.T) {
	t.Parallel()
	program(t, "prometheus")
	pool := pgtest.New(t)
	appURL := shop(t, pool)
	set := fleettest.Quick().Plus(fleettest.Settings{"SCHED_ELASTIC": "on", fleettest.SetSlots: "20"})
	var targets []string
	for range 2 {
		targets = append(targets, fleettest.Start(t, programs.Sidecar, pgtest.DSN(pool), appURL, set).AdminAddr())
	}
	server := startPrometheus(t, "exemplar-storage", targets...)
	// One that keeps native histograms lets the classic ones go, unless it is told otherwise.
	native := startPrometheus(t, "native-histograms", targets...)
	missing := map[string]string{} // query by where it is
	ask := func(what, query string) { missing[what+": "+query] = query }
	variables := strings.NewReplacer("$job", "sched", "$instance", ".*", "$queue", ".*", "$kind", ".*", "$__rate_interval", rateInterval)
	for _, panel := range readDashboard(t).Panels {
		for _, target := range panel.Targets {
			ask(fmt.Sprintf("panel %q, query %s", panel.Title, target.RefID), variables.Replace(target.Expr))
		}
	}
	for _, r := range rules(t) {
		if r.Record != "" {
			ask("rule "+r.Record, r.Record)
		}
	}
	require.Greater(t, len(missing), 90)
	fleettest.Eventually(t, dataWithin, func() bool {
		maps.DeleteFunc(missing, func(_, query string) bool { return len(server.numbers(t, query)) > 0 })
		return len(missing) == 0
	}, func() string { return "without data:\n" + strings.Join(slices.Sorted(maps.Keys(missing)), "\n") })
	fleettest.Eventually(t, dataWithin, func() bool { return len(native.numbers(t, `histogram_count(sched_queue_wait_seconds)`)) > 0 },
		func() string { return "no native histogram" })
	status, body := server.get(t, "/api/v1/rules?type=alert")
	require.Equal(t, http.StatusOK, status)
	require.NotContains(t, string(body), `"health":"err"`, "alerts can be evaluated on what sidecars show")
}
