//go:build verify

package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/devpg"
)

func TestVerifyPostgresVersions(t *testing.T) {
	t.Parallel()
	for _, major := range []string{"18", "17", "16", "15", "14"} {
		t.Run(major, func(t *testing.T) {
			t.Parallel()
			server := npmPostgres(t, major)
			requireVersionWorks(t, server)
			require.Equal(t, major, one[string](t, open(t, server.DSN()), "SELECT split_part(current_setting('server_version'), '.', 1)"))
		})
	}
}

// npmPostgres starts a server of a major version.
func npmPostgres(t *testing.T, major string) *devpg.Server {
	t.Helper()
	server, err := devpg.Start(t.Context(), devpg.Options{Fast: true, BinDir: npmServer(t, major), Version: major})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	return server
}
