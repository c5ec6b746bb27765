package elastic_test

import (
	"os"
	"testing"

	"github.com/sched-sidecar/sched/internal/fleettest"
)

// programs are the ones under test, built once from this tree.
var programs fleettest.Programs

func TestMain(m *testing.M) {
	const sideBySide = 4
	os.Exit(fleettest.Run(m, sideBySide, func(built fleettest.Programs) { programs = built }))
}
