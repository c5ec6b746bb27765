package dev

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNoPlaceForTheData(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for name, dir := range map[string]string{"is a file": file, "below a file": filepath.Join(file, "dev", "shop")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := newServer(Options{Dir: dir}).startPostgres(t.Context())
			require.ErrorContains(t, err, file)
			require.ErrorContains(t, err, "not a directory; keep the data elsewhere with --dir, or use --ephemeral")
		})
	}
	_, err := os.ReadFile("/proc/1/none/none")
	require.ErrorIs(t, withOtherPlace(err), err)
	require.Equal(t, os.ErrClosed, withOtherPlace(os.ErrClosed), "nothing that another place would mend")
}
