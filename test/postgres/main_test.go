package postgres_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

// The programs under test, built once from this tree.
var sidecarBinary, schedBinary string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		// These tests mostly wait for other processes: the number of cores says
		// little about how many can run side by side.
		if err := flag.Set("test.parallel", "6"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	dir, err := os.MkdirTemp("", "schedtest")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }() // what is left is the system's to clear
		err = build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build the programs under test:", err)
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

func build(dir string) error {
	build := exec.Command("go", "build", "-o", dir+"/", "github.com/sched-sidecar/sched/cmd/sched-sidecar", "github.com/sched-sidecar/sched/cmd/sched")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	sidecarBinary, schedBinary = filepath.Join(dir, "sched-sidecar"), filepath.Join(dir, "sched")
	return build.Run()
}
