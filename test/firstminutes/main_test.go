package firstminutes_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

// binDir holds the programs under test, built once from this tree.
var binDir string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	dir, err := os.MkdirTemp("", "firstminutes")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // what is left is the system's to clear
	binDir = filepath.Join(dir, "bin")
	if err := openToAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	const module = "github.com/sched-sidecar/sched"
	build := exec.Command("go", "build", "-o", binDir+"/", module+"/cmd/sched", module+"/cmd/sched-sidecar")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build sched and sched-sidecar:", err)
		return 1
	}

	code := m.Run()
	if code == 0 {
		if err := pgtest.Leaked(); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines left in the test binary:", err)
			return 1
		}
	}
	return code
}

// openToAll lets other accounts enter a directory: when root tests, Postgres is one.
func openToAll(dir string) error { return os.Chmod(dir, 0o755) }
