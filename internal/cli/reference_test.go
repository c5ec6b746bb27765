package cli

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/cli.md")

// docs/cli.md is what the commands say of themselves.
func TestReference(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "docs", "cli.md")
	var want bytes.Buffer
	require.NoError(t, WriteReference(&want))

	if *update {
		require.NoError(t, os.WriteFile(path, want.Bytes(), 0o644))
	}
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want.String(), string(got), "docs/cli.md is behind internal/cli: run make generate")
}
