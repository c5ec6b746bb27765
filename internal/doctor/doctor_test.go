package doctor

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	patience = time.Minute
	tick     = 10 * time.Millisecond
)

// look makes one check of a database.
func look(t *testing.T, dsn, name string, options Options) []Finding {
	t.Helper()
	options.DSN = dsn
	options = options.withDefaults()
	conn, err := connect(t.Context(), dsn, patience)
	require.NoError(t, err)
	defer closeConn(t.Context(), conn)
	for _, c := range checks() {
		if c.name == name {
			return examine(t.Context(), conn, c, options)
		}
	}
	require.FailNow(t, "no check "+name)
	return nil
}

// healthy requires a single finding that all is well.
func healthy(t *testing.T, findings []Finding, contains string) {
	t.Helper()
	require.Len(t, findings, 1, "%+v", findings)
	require.Equal(t, OK, findings[0].Level, "%+v", findings)
	require.Empty(t, findings[0].Advice)
	require.Contains(t, findings[0].Message, contains)
}

// ill returns the one finding that isn't ok, and requires its level and advice.
func ill(t *testing.T, findings []Finding, level Level) Finding {
	t.Helper()
	var bad []Finding
	for _, f := range findings {
		if f.Level != OK {
			bad = append(bad, f)
		}
	}
	require.Len(t, bad, 1, "%+v", findings)
	require.Equal(t, level, bad[0].Level, "%+v", bad[0])
	require.NotEmpty(t, bad[0].Advice, "what to do")
	return bad[0]
}

func exec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	_, err := pool.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

// worker registers a live worker and returns its id.
func worker(t *testing.T, pool *pgxpool.Pool, id, columns, values string) string {
	t.Helper()
	if columns != "" {
		columns, values = ", "+columns, ", "+values
	}
	exec(t, pool, `INSERT INTO sched.worker (id, client_id, hostname, pid, state, slots, version`+columns+`)
		VALUES ($1, 'client-' || $1, 'web-1', 7, 'active', 10, 'v1'`+values+`)`, id)
	return id
}

func TestRun_Healthy(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool, `UPDATE sched.fleet SET computed_at = now() + interval '1 hour'`)
	worker(t, pool, "w-1", "", "")
	exec(t, pool, `INSERT INTO sched.river_leader (elected_at, expires_at, leader_id, name) VALUES (now(), now() + interval '15 s', 'client-w-1', 'default')`)

	findings, err := Run(t.Context(), Options{DSN: pgtest.DSN(pool)})

	require.NoError(t, err)
	require.Equal(t, OK, Worst(findings), "%+v", findings)
	var names []string
	for i, c := range checks() {
		names = append(names, findings[i].Check)
		require.Equal(t, c.name, findings[i].Check, "%v", names)
		require.NotEmpty(t, c.about)
	}
}

func TestRun_NoSchema(t *testing.T) {
	t.Parallel()
	findings, err := Run(t.Context(), Options{DSN: pgtest.DSN(pgtest.Empty(t))})

	require.NoError(t, err)
	levels := map[string]Level{}
	for _, f := range findings {
		levels[f.Check] = f.Level
	}
	require.Equal(t, OK, levels["connection"])
	require.Equal(t, Failed, levels["schema"])
	require.Equal(t, OK, levels["notifications"], "what needs no schema is looked at")
	require.Equal(t, Skipped, levels["leader"])
}

func TestRun_Unreachable(t *testing.T) {
	t.Parallel()
	findings, err := Run(t.Context(), Options{DSN: "postgres://u:hunter2@127.0.0.1:1/d?sslmode=disable", Timeout: time.Second})

	require.NoError(t, err)
	finding := ill(t, findings, Failed)
	require.Equal(t, "connection", finding.Check)
	require.Contains(t, finding.Message, "127.0.0.1:1")
	require.NotContains(t, finding.Message, "hunter2")
}

func TestRun_ContextEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Run(ctx, Options{DSN: pgtest.DSN(pgtest.Empty(t))})
	require.ErrorIs(t, err, context.Canceled)
}

func TestRun_FewRights(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	role := asRole(t, pool, "sched_auditor")

	findings, err := Run(t.Context(), Options{DSN: role})

	require.NoError(t, err)
	require.NotEmpty(t, findings)
	skipped := 0
	for _, f := range findings {
		if f.Level == Skipped {
			skipped++
			require.Contains(t, f.Advice, "sched_sidecar")
		}
		require.NotContains(t, f.Message, "transaction is aborted")
	}
	require.Positive(t, skipped)
}

// The longest that a check takes is its timeout, and the others go on.
func TestRun_SlowCheck(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), `LOCK TABLE sched.river_leader IN ACCESS EXCLUSIVE MODE`)
	require.NoError(t, err)

	findings, err := Run(t.Context(), Options{DSN: pgtest.DSN(pool), Timeout: 3 * time.Second})

	require.NoError(t, err)
	levels := map[string]Finding{}
	for _, f := range findings {
		levels[f.Check] = f
	}
	require.Equal(t, Warning, levels["leader"].Level)
	require.Contains(t, levels["leader"].Message, "too long")
	require.Equal(t, OK, levels["queues"].Level)
}

func TestWorst(t *testing.T) {
	t.Parallel()
	require.Equal(t, OK, Worst(nil))
	require.Equal(t, Skipped, Worst([]Finding{{Level: OK}, {Level: Skipped}}))
	require.Equal(t, Warning, Worst([]Finding{{Level: Warning}, {Level: Skipped}}))
	require.Equal(t, Failed, Worst([]Finding{{Level: Failed}, {Level: Warning}}))
}

// asRole makes a login role with some of the project's roles and returns a
// connection string of it.
func asRole(t *testing.T, pool *pgxpool.Pool, memberOf string) string {
	t.Helper()
	role := "doctor_" + strings.ToLower(strings.NewReplacer("/", "_", "_", "").Replace(t.Name()))
	exec(t, pool, `CREATE ROLE `+role+` LOGIN PASSWORD 'p'`)
	t.Cleanup(func() {
		_, err := pool.Exec(context.Background(), `DROP ROLE `+role)
		require.NoError(t, err)
	})
	if memberOf != "" {
		exec(t, pool, `GRANT `+memberOf+` TO `+role)
	}
	config, err := pgx.ParseConfig(pgtest.DSN(pool))
	require.NoError(t, err)
	return fmt.Sprintf("host=%s port=%d dbname=%s user=%s password=p", config.Host, config.Port, config.Database, role)
}
