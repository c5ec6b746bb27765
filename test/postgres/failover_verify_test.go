//go:build verify

package postgres_test

import (
	"testing"
	"time"
)

// A listener that is silent is asked where it is every 30 s.
func TestVerifyListenersLeaveAReadOnlyPrimary(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.failOver(t, startStandby(t, s.server, ""), readOnly(t))
	begun := time.Now()
	eventually(t, time.Minute, func() bool {
		return one[int](t, s.db, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'sched-sidecar'") == 0
	}, func() string { return "sidecars stay with the old primary" })
	t.Logf("the last left within %s", time.Since(begun))
}
