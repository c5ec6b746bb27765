package mainjob_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

// sidecarBinary is the daemon under test, built once from this tree.
var sidecarBinary string

func TestMain(m *testing.M) {
	if os.Getenv(appProcessEnv) != "" {
		os.Exit(runAppProcess())
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	flag.Parse()
	if !flagGiven("test.parallel") {
		// These tests mostly wait for other processes' timers, so the number of
		// cores says little about how many can run side by side.
		if err := flag.Set("test.parallel", "8"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}

	dir, err := os.MkdirTemp("", "mainjob")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // what is left is the system's to clear

	sidecarBinary = filepath.Join(dir, "sched-sidecar")
	args := []string{"build", "-o", sidecarBinary}
	if raceEnabled {
		args = append(args, "-race")
	}
	build := exec.Command("go", append(args, "github.com/sched-sidecar/sched/cmd/sched-sidecar")...)
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build sched-sidecar:", err)
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

func flagGiven(name string) bool {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	return given
}
