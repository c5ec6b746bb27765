package app

import (
	"os"
	"testing"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

func TestMain(m *testing.M) {
	if mood, ok := os.LookupEnv(appVariable); ok {
		os.Exit(runTestApp(mood))
	}
	pgtest.Main(m)
}
