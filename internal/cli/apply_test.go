package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

const fleetText = `
settings: {notify: false}
queues: [{name: mail, selector: {zone: a}, protocol: grpc, description: "Mails, late ones too"}]
kinds:
  send_mail: {queue: mail, timeout: 30s}
`

func TestApplyAndExport(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	file := filepath.Join(t.TempDir(), "fleet.yaml")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	sched := func(args ...string) string {
		t.Helper()
		got := runs(schedCommand([]string{"SCHED_DATABASE_URL=" + pgtest.DSN(pool)}), nil, args...)
		require.Equal(t, exitOK, got.code, got.stderr)
		require.Empty(t, got.stderr)
		return got.stdout
	}
	write(fleetText)

	got := runs(schedCommand(nil), nil, "apply", "--dry-run", "-f", file, "--dsn", pgtest.DSN(pool)+"&pool_max_conns=4")
	require.Equal(t, exitOK, got.code, "a sidecar's connection string: %s", got.stderr)
	got = runs(schedCommand(nil), nil, "apply", "-f", t.TempDir(), "--dsn", pgtest.DSN(pool))
	require.Equal(t, exitUsage, got.code, got.stderr)

	diff := `~ setting notify: value true → false
+ queue mail (zone=a, grpc): description "Mails, late ones too"
+ kind send_mail: queue mail, timeout 30s
`
	require.Equal(t, diff+"dry run, nothing was changed: 2 added, 1 changed, 0 removed\n", sched("apply", "-f", file, "--dry-run"))
	require.Equal(t, diff+"2 added, 1 changed, 0 removed\n", sched("apply", "-f", file))
	require.Equal(t, "nothing to change\n", sched("apply", "-f", file))

	exported := sched("export")
	settings, rest, _ := strings.Cut(exported, "queues:\n")
	require.Contains(t, settings, "settings:\n")
	require.Contains(t, settings, "\n  notify: false\n")
	require.Equal(t, `  - name: mail
    selector: {zone: a}
    protocol: grpc
    description: Mails, late ones too
kinds:
  send_mail:
    queue: mail
    timeout: 30s
schedules: {}
`, rest)
	write(exported)
	require.Equal(t, "nothing to change\n", sched("apply", "-f", file, "--prune"))

	_, err := pool.Exec(t.Context(), "UPDATE sched.kind SET pinned = true; INSERT INTO sched.kind (kind, priority) VALUES ('old', 3)")
	require.NoError(t, err)
	write("kinds: {send_mail: {queue: mail, priority: 1}}")
	by := pool.Config().ConnConfig.User
	pinned := "! kind send_mail is pinned by " + by + " and left as it is: priority not set → 1, timeout 30s → not set\n"
	require.Equal(t, pinned+"? kind old is not in the file, and kept\nnothing to change; 1 pinned and left as they are; 1 not in the file and kept (--prune removes them)\n",
		sched("apply", "-f", file))
	require.Equal(t, pinned+"- kind old\n0 added, 0 changed, 1 removed; 1 pinned and left as they are\n", sched("apply", "-f", file, "--prune"))
	require.Contains(t, sched("export"), "# pinned by "+by)

	var change map[string]any
	write("queues: [{name: mail, selector: {zone: a}, protocol: grpc}]")
	require.NoError(t, json.Unmarshal([]byte(sched("apply", "-f", file, "--json")), &change))
	require.Equal(t, map[string]any{
		"action": "change", "type": "queue", "name": "mail", "selector": map[string]any{"zone": "a"}, "protocol": "grpc", "dry_run": false,
		"from": map[string]any{"description": "Mails, late ones too"}, "to": map[string]any{"description": nil},
	}, change)
}

func TestApplyRefuses(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "fleet.yaml")
	require.NoError(t, os.WriteFile(file, []byte("kinds:\n  a: {priorty: 1}\n"), 0o600))
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"no file", []string{"apply"}, "sched: apply: needs a file: -f fleet.yaml, or -f - for standard input\n"},
		{"a file that isn't there", []string{"apply", "-f", file + "x"}, "sched: open " + file + "x: no such file or directory\n"},
		{"a wrong file", []string{"apply", "-f", file}, "sched: kinds.a.priorty (" + file + ":2): is not a key; did you mean priority?\n"},
		{"a file as an argument", []string{"apply", file}, "sched: apply: takes no arguments, got [\"" + file + "\"]; see sched apply --help\n"},
		{"an empty standard input", []string{"apply", "-f", "-"}, "sched: -: has nothing in it; give it a section: settings, queues, kinds, schedules\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, result{code: exitUsage, stderr: tt.want}, runs(schedCommand(nil), nil, tt.args...))
		})
	}
}

func TestApplyNeedsTheSchemaAndTheRights(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "fleet.yaml")
	require.NoError(t, os.WriteFile(file, []byte(fleetText), 0o600))
	got := runs(schedCommand(nil), nil, "apply", "-f", file, "--dsn", pgtest.DSN(pgtest.Empty(t)))
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.stderr, "sched migrate up")

	pool := pgtest.New(t)
	role := "fleet_reader_" + strings.ReplaceAll(pool.Config().ConnConfig.Database, "-", "_")
	_, err := pool.Exec(t.Context(), "CREATE ROLE "+role+" LOGIN IN ROLE sched_sidecar")
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = pool.Exec(context.Background(), "DROP ROLE "+role) })
	reader := strings.Replace(pgtest.DSN(pool), pool.Config().ConnConfig.User+"@", role+"@", 1)
	require.NotEqual(t, pgtest.DSN(pool), reader)

	for _, args := range [][]string{{"apply", "--dry-run", "-f", file}, {"export"}} {
		got = runs(schedCommand(nil), nil, append(args, "--dsn", reader)...)
		require.Equal(t, exitOK, got.code, got.stderr)
	}
	got = runs(schedCommand(nil), nil, "apply", "-f", file, "--dsn", reader)
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.stderr, "needs the rights of sched_owner")
}
