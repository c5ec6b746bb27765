package postgres_test

import (
	"fmt"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What a sidecar takes of the server: a name in pg_stat_activity, a bounded number
// of connections, and no transaction that is idle for long.
func TestConnectionsOfASidecar(t *testing.T) {
	t.Parallel()
	const poolMax = 6
	s := newStage(t)
	startSidecar(t, s.server.DSN(), s.app.url, settings{setPool: "6", setSlots: "500"})
	ids := all[int64](t, s.db, `SELECT sched.enqueue_many((SELECT jsonb_agg('{"kind": "load"}'::jsonb) FROM generate_series(1, 5000)))`)
	most := 0
	eventually(t, time.Minute, func() bool {
		most = max(most, one[int](t, s.db, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'sched-sidecar'"))
		return one[int](t, s.db, "SELECT count(*) FROM sched.task WHERE id = any($1) AND status = 'completed'", ids) == len(ids)
	}, func() string { return "not drained" })
	t.Logf("%d connections at most, with a pool of %d and the listener", most, poolMax)
	require.GreaterOrEqual(t, most, 2)
	require.LessOrEqual(t, most, poolMax+3, "one that was closed may still be shown")
	require.Zero(t, one[int](t, s.db, `SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'
		AND application_name NOT IN ('sched-sidecar', '')`), "an unnamed connection is this test's own")
}

// A fleet is many pools: what a busy moment opened is closed again.
func TestIdleSidecarNeedsFewConnections(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	startSidecar(t, s.server.DSN()+"&pool_max_conn_idle_time=2s&pool_health_check_period=500ms", s.app.url, settings{setPool: "20"})
	least, most := 1000, 0
	eventually(t, soon, func() bool {
		n := one[int](t, s.db, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'sched-sidecar'")
		least, most = min(least, n), max(most, n)
		return n <= 4
	}, func() string { return fmt.Sprintf("an idle sidecar has between %d and %d connections", least, most) })
	t.Logf("from %d connections down to %d", most, least)
}

// A database that can't be reached is said soon, and without the password.
func TestUnreachableDatabase(t *testing.T) {
	t.Parallel()
	// It takes connections and answers nothing, as behind a wrong firewall.
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, silent.Close()) })
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, gone.Close())

	for name, test := range map[string]struct {
		hosts  string
		within time.Duration
	}{
		"refused":        {gone.Addr().String(), 20 * time.Second},
		"silent":         {silent.Addr().String(), 40 * time.Second},
		"both":           {silent.Addr().String() + "," + gone.Addr().String(), 40 * time.Second},
		"unknown host":   {"nowhere.invalid", 40 * time.Second},
		"a standby only": {"", 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := url.URL{Scheme: "postgres", User: url.UserPassword("somebody", "topsecret"), Host: test.hosts, Path: "/app"}
			if test.hosts == "" {
				s := newStage(t)
				execute(t, s.db, "ALTER DATABASE postgres SET default_transaction_read_only = on")
				u, err := url.Parse(s.server.DSN())
				require.NoError(t, err)
				dsn = *u
			}
			begun := time.Now()
			p := start(t, sidecarBinary, settings{setDatabase: dsn.String(), "SCHED_ADMIN_ADDR": "127.0.0.1:0"}, "run")
			require.Equal(t, 1, p.awaitExit(t, time.Minute))
			t.Logf("after %s: %s", time.Since(begun), p.log)
			require.Less(t, time.Since(begun), test.within)
			require.Contains(t, p.log.String(), "no connection to the database")
			require.Contains(t, p.log.String(), "SCHED_DATABASE_URL")
			password, _ := dsn.User.Password()
			require.NotContains(t, p.log.String(), password)
		})
	}
}
