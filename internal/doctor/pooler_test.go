package doctor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

// PgBouncer in transaction mode, the real one, is in test/postgres.
func TestPooler(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(pgtest.Empty(t))
	healthy(t, look(t, dsn, "pooler", Options{}), "nothing stands between")
	healthy(t, look(t, dsn, "pooler", Options{ListenDSN: dsn + "&application_name=other"}), "nothing stands between")

	finding := ill(t, look(t, dsn, "pooler", Options{
		ListenDSN: "postgres://u:hunter2@127.0.0.1:1/d?sslmode=disable", Timeout: time.Second,
	}), Failed)
	require.Contains(t, finding.Message, "127.0.0.1:1")
	require.NotContains(t, finding.Message, "hunter2")
	require.Contains(t, finding.Advice, "database.listen_url")
}

func TestJudgePooler(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		found between
		level Level
		says  string
	}{
		"none":                         {between{}, OK, "nothing stands between"},
		"sessions":                     {between{pooled: true}, OK, "in session mode"},
		"transactions":                 {between{pooled: true, shared: true}, Warning, "a pooler in transaction mode answers"},
		"transactions, listening past": {between{pooled: true, shared: true, listen: true}, OK, "at Postgres itself"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			finding := judgePooler(tc.found)
			require.Equal(t, tc.level, finding.Level)
			require.Contains(t, finding.Message, tc.says)
			require.Equal(t, tc.level == OK, finding.Advice == "")
		})
	}
}
