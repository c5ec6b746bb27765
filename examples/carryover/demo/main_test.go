package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

// childEnv makes this test binary a child of the demo: "stubborn" ignores SIGTERM,
// "willing" ends on it, "hasty" ends at once.
const childEnv = "CARRYOVER_TEST_CHILD"

func TestMain(m *testing.M) {
	if mood := os.Getenv(childEnv); mood != "" {
		child(mood)
		return
	}
	pgtest.Main(m)
}

func child(mood string) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	fmt.Println(mood, "child is ready, SCHED_X="+os.Getenv("SCHED_X"))
	switch mood {
	case "hasty":
		os.Exit(3)
	case "willing":
		<-signals
	default:
		select {}
	}
}

func TestRunRefusesOptionsThatShowNothing(t *testing.T) {
	t.Parallel()
	for _, o := range []options{{orders: 1, slots: 4}, {orders: 500, slots: 0}} {
		require.ErrorContains(t, run(t.Context(), o, &screen{}), "at least 2 orders and 1 slot")
	}
}
