//go:build !verify

package see_test

import (
	"testing"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }
