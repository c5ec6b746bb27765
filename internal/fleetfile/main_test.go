package fleetfile

import (
	"testing"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }
