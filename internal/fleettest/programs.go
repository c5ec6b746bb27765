package fleettest

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

// Programs are the paths of sched's programs.
type Programs struct{ Sched, Sidecar string }

// Run builds the programs, hands them to use, and runs the tests of a package
// with as many of them side by side as parallel, unless -test.parallel says
// otherwise: they mostly wait for other processes' timers, so the number of cores
// says little about it. It returns the exit code.
func Run(m *testing.M, parallel int, use func(Programs)) int {
	flag.Parse()
	if !flagGiven("test.parallel") {
		if err := flag.Set("test.parallel", fmt.Sprint(parallel)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	dir, err := os.MkdirTemp("", "fleettest")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // what is left is the system's to clear
	programs, err := build(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	use(programs)
	return pgtest.Run(m)
}

// build compiles the programs as they ship: a fleet with the race detector in each
// process is too slow to act like one. The governor's own tests look for races, and
// so does test/mainjob in make verify.
func build(dir string) (Programs, error) {
	const commands = "github.com/sched-sidecar/sched/cmd/"
	cmd := exec.Command("go", "build", "-o", dir+string(filepath.Separator), commands+"sched", commands+"sched-sidecar") //nolint:noctx // bounded by the tests' own deadline
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return Programs{}, fmt.Errorf("building the programs: %w", err)
	}
	return Programs{Sched: filepath.Join(dir, "sched"), Sidecar: filepath.Join(dir, "sched-sidecar")}, nil
}

func flagGiven(name string) bool {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	return given
}
