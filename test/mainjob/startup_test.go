package mainjob_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/fleettest"
	"github.com/sched-sidecar/sched/internal/pgtest"
)

func TestStartWithoutTheSchema(t *testing.T) {
	t.Parallel()
	empty := pgtest.Empty(t)
	s := execSidecar(t, settings{setDatabase: pgtest.DSN(empty), setApp: "http://127.0.0.1:1", setAdmin: "127.0.0.1:0"}, "run")
	require.NotZero(t, s.awaitExit(t, soon))
	log := s.log.String()
	require.Contains(t, log, "sched migrate up", "what to do")
	require.NotContains(t, log, "goroutine ")
	requireBrief(t, log)
}

func TestStartWithoutPostgres(t *testing.T) {
	t.Parallel()
	address := fleettest.FreeAddress(t)
	dsn := url.URL{Scheme: "postgres", User: url.UserPassword("somebody", "topsecret"), Host: address, Path: "/app", RawQuery: "sslmode=disable"}
	s := execSidecar(t, settings{setDatabase: dsn.String(), setApp: "http://127.0.0.1:1", setAdmin: "127.0.0.1:0"}, "run")
	require.NotZero(t, s.awaitExit(t, 2*soon))
	log := s.log.String()
	require.Contains(t, log, address[strings.LastIndexByte(address, ':')+1:], "where it looked")
	require.NotContains(t, log, "topsecret", "no password in a log")
	requireBrief(t, log)
}

func TestStartWithAWrongSetting(t *testing.T) {
	t.Parallel()
	s := execSidecar(t, settings{setHeartbeat: "often", setAdmin: "127.0.0.1:0"}, "run")
	require.NotZero(t, s.awaitExit(t, soon))
	require.Contains(t, s.log.String(), setHeartbeat, "which setting")
	require.Contains(t, s.log.String(), "often", "what is wrong")

	s = execSidecar(t, settings{"SCHED_HARTBEAT_INTERVAL": "5s", setAdmin: "127.0.0.1:0"}, "run")
	require.NotZero(t, s.awaitExit(t, soon))
	require.Contains(t, s.log.String(), "SCHED_HARTBEAT_INTERVAL", "an unknown setting is an error")
	require.Contains(t, s.log.String(), setHeartbeat, "and the nearest one is named")
}

// requireBrief: an error that a user sees is a few lines, not a dump.
func requireBrief(t *testing.T, log string) {
	t.Helper()
	require.NotEmpty(t, strings.TrimSpace(log))
	require.LessOrEqual(t, strings.Count(log, "\n"), 15, log)
}
