package protocols_test

import (
	"os"
	"testing"

	"github.com/sched-sidecar/sched/internal/fleettest"
)

// sidecarProgram is the daemon under test, built once from this tree.
var sidecarProgram string

// TestMain is also the app, its own binary with a variable set.
func TestMain(m *testing.M) {
	if protocol := os.Getenv(envProtocol); protocol != "" {
		os.Exit(runApp(protocol))
	}
	const parallel = 6
	os.Exit(fleettest.Run(m, parallel, func(p fleettest.Programs) { sidecarProgram = p.Sidecar }))
}
