//go:build verify

package console_test

import (
	"os"
	"testing"

	"github.com/sched-sidecar/sched/internal/fleettest"
)

// programs are the real ones, built from this tree.
var programs fleettest.Programs

func TestMain(m *testing.M) {
	os.Exit(fleettest.Run(m, 4, func(p fleettest.Programs) { programs = p }))
}
