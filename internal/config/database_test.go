package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLoadDSN(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "dsn")
	require.NoError(t, os.WriteFile(file, []byte("postgres://from/file\n"), 0o600))
	const fallback, env = "DATABASE_URL=postgres://from/fallback", "SCHED_DATABASE_URL=postgres://from/env"

	tests := []struct {
		name, flag string
		env        []string
		want       DSN
		wrong      string
	}{
		{name: "nothing", want: ""},
		{name: "fallback", env: []string{fallback}, want: "postgres://from/fallback"},
		{name: "ours first", env: []string{fallback, env}, want: "postgres://from/env"},
		{name: "a file", env: []string{fallback, "SCHED_DATABASE_URL_FILE=" + file}, want: "postgres://from/file"},
		{name: "the flag first", flag: "postgres://from/flag", env: []string{fallback, env}, want: "postgres://from/flag"},
		{name: "other settings of a sidecar don't matter", env: []string{env, "SCHED_ZEBRA=1"}, want: "postgres://from/env"},
		{name: "both", env: []string{env, "SCHED_DATABASE_URL_FILE=" + file}, wrong: "SCHED_DATABASE_URL is set too"},
		{name: "wrong", flag: "postgres://u:hunter2@h:port/d", wrong: "database.url = postgres://u:xxxxx@h:port/d (--dsn): is not a Postgres connection string"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()

			got, err := LoadDSN(tt.flag, tt.env)

			if tt.wrong != "" {
				require.ErrorContains(t, err, tt.wrong)
				require.NotContains(t, err.Error(), "hunter2")

				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}
