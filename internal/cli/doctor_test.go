package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/doctor"
	"github.com/sched-sidecar/sched/internal/pgtest"
)

func TestDoctor(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	dsn := "DATABASE_URL=" + pgtest.DSN(pool)

	got := runs(schedCommand([]string{dsn}), nil, "doctor")
	require.Equal(t, exitOK, got.code, "warnings are no failure: %s%s", got.stdout, got.stderr)
	require.Empty(t, got.stderr)
	require.Regexp(t, `(?m)^CHECK +RESULT +FINDING$`, got.stdout)
	require.Regexp(t, `(?m)^connection +ok +PostgreSQL `, got.stdout)
	require.Regexp(t, `(?m)^workers +warning +no worker is registered.*\n +→ start sched-sidecar`, got.stdout)

	_, err := pool.Exec(t.Context(), `INSERT INTO sched.river_leader (elected_at, expires_at, leader_id, name)
		VALUES (now(), now() + interval '1 hour', 'web-7_2026', 'default')`)
	require.NoError(t, err)
	got = runs(schedCommand([]string{dsn}), nil, "doctor")
	require.Equal(t, exitFailed, got.code)
	require.Regexp(t, `^sched: doctor: 1 of \d+ findings are failures\n$`, got.stderr)
	require.Regexp(t, `(?m)^leader +FAILED +"web-7_2026" leads since`, got.stdout)

	got = runs(schedCommand([]string{dsn}), nil, "doctor", "--json")
	require.Equal(t, exitFailed, got.code)
	levels := map[string]doctor.Level{}
	for line := range strings.Lines(got.stdout) {
		var finding doctor.Finding
		require.NoError(t, json.Unmarshal([]byte(line), &finding), line)
		require.NotEmpty(t, finding.Message)
		levels[finding.Check] = finding.Level
	}
	require.Equal(t, doctor.Failed, levels["leader"])
	require.Equal(t, doctor.Warning, levels["workers"])
	require.Equal(t, doctor.OK, levels["connection"])
}

func TestDoctor_WithoutDatabase(t *testing.T) {
	t.Parallel()

	got := runs(schedCommand([]string{"SCHED_DATABASE_URL=postgres://u:hunter2@127.0.0.1:1/d?sslmode=disable"}), nil, "doctor")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.stdout, "127.0.0.1:1")
	require.NotContains(t, got.stdout+got.stderr, "hunter2")

	got = runs(schedCommand(nil), nil, "doctor", "--dsn=postgres://u:hunter2@h:port/d")
	require.Equal(t, exitUsage, got.code)
	require.NotContains(t, got.stdout+got.stderr, "hunter2")

	require.Equal(t, exitUsage, runs(schedCommand(nil), nil, "doctor", "--timeout=0s").code)
}

// Behind a pooler, notifications go by another connection string, as the sidecar's do.
func TestDoctor_ListenURL(t *testing.T) {
	t.Parallel()
	environ := []string{"DATABASE_URL=" + pgtest.DSN(pgtest.New(t)), listenVariable + "=" + pgtest.DSN(pgtest.Empty(t))}
	got := runs(schedCommand(environ), nil, "doctor", "--timeout=3s")
	require.Contains(t, got.stdout, "not received within 3s")
}
