package doctor

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

func TestConnection(t *testing.T) {
	t.Parallel()
	pool := pgtest.Empty(t)
	findings := look(t, pgtest.DSN(pool), "connection", Options{})
	require.Contains(t, findings[0].Message, "PostgreSQL ")
	require.Contains(t, findings[0].Message, "as role postgres")
}

// Connections of other roles count, also for a role that may not see what they do.
func TestConnection_CountsThoseOfOthers(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	plain := asRole(t, pool, "")
	for range 7 {
		conn, err := pgx.Connect(t.Context(), pgtest.DSN(pool))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) })
	}
	message := look(t, plain, "connection", Options{})[0].Message
	var used int
	_, err := fmt.Sscanf(message[strings.LastIndex(message, ", ")+2:], "%d of", &used)
	require.NoError(t, err, message)
	require.GreaterOrEqual(t, used, 8)
}

func TestJudgeServer(t *testing.T) {
	t.Parallel()
	well := server{version: "15.4", role: "ops", database: "shop", number: 150004, used: 10, limit: 97, trip: time.Millisecond}
	healthy(t, judgeServer(well), "PostgreSQL 15.4, database shop as role ops, round trip 1ms, 10 of 97 connections used")

	standby, old, full, far := well, well, well, well
	standby.standby = true
	old.number, old.version = 130010, "13.10"
	full.used = 83
	far.trip = 25 * time.Millisecond
	require.Contains(t, ill(t, judgeServer(standby), Failed).Message, "standby")
	require.Contains(t, ill(t, judgeServer(old), Warning).Message, "13.10")
	require.Contains(t, ill(t, judgeServer(full), Warning).Message, "83 of 97")
	require.Contains(t, ill(t, judgeServer(far), Warning).Message, "25ms")
}

func TestNotifications(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	healthy(t, look(t, pgtest.DSN(pool), "notifications", Options{}), "gets through")

	exec(t, pool, `UPDATE sched.setting SET value = 'false' WHERE key = 'notify'`)
	require.Contains(t, ill(t, look(t, pgtest.DSN(pool), "notifications", Options{}), Warning).Message, "notify is false")
}

// A pooler in transaction mode swallows notifications as another database does.
func TestNotifications_Swallowed(t *testing.T) {
	t.Parallel()
	elsewhere := pgtest.DSN(pgtest.Empty(t))
	options := Options{ListenDSN: elsewhere, Timeout: 3 * time.Second}

	finding := ill(t, look(t, pgtest.DSN(pgtest.Empty(t)), "notifications", options), Warning)

	require.Contains(t, finding.Message, "not received within 3s")
	require.Contains(t, finding.Advice, "database.listen_url")
}

func TestNotifications_ListenerUnreachable(t *testing.T) {
	t.Parallel()
	options := Options{ListenDSN: "postgres://u:hunter2@127.0.0.1:1/d?sslmode=disable"}
	finding := ill(t, look(t, pgtest.DSN(pgtest.Empty(t)), "notifications", options), Warning)
	require.Contains(t, finding.Message, "127.0.0.1:1")
	require.NotContains(t, finding.Message, "hunter2")
}

func TestClock(t *testing.T) {
	t.Parallel()
	healthy(t, look(t, pgtest.DSN(pgtest.Empty(t)), "clock", Options{}), "differs by")

	for _, tt := range []struct {
		difference, uncertainty time.Duration
		level                   Level
		message                 string
	}{
		{2 * time.Second, 0, OK, "2s"},
		{-2 * time.Second, 0, OK, "2s"},
		{3 * time.Second, 2 * time.Second, OK, "± 2s"},
		{3 * time.Second, 0, Warning, "3s ahead of"},
		{-90 * time.Second, time.Millisecond, Warning, "1m30s behind"},
	} {
		finding := judgeClock(tt.difference, tt.uncertainty)
		require.Equal(t, tt.level, finding.Level, "%+v", tt)
		require.Contains(t, finding.Message, tt.message)
	}
}
