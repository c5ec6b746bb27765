package recipes_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

// binDir holds what the tests build.
var binDir string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if binDir, err = os.MkdirTemp("", "recipes"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(binDir) }() // what is left is the system's to clear
	code := m.Run()
	if code == 0 {
		if err := pgtest.Leaked(); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines left after the tests:", err)
			return 1
		}
	}
	return code
}

// build compiles the sidecar and the shops in Go, once.
var build = sync.OnceValue(func() error {
	cmd := exec.Command("go", "build", "-o", binDir, "../../cmd/sched-sidecar", "./go-pgx", "./go-sql")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
})

func binary(t *testing.T, name string) string {
	t.Helper()
	require.NoError(t, build())
	return filepath.Join(binDir, name)
}
