package routing_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// gauge is the value of a metric without labels; nil: it is absent.
func (l *lead) gauge(name string) *float64 {
	l.t.Helper()
	families, err := l.registry.Gather()
	require.NoError(l.t, err)
	for _, family := range families {
		if family.GetName() == name {
			require.Len(l.t, family.GetMetric(), 1)
			value := family.GetMetric()[0].GetGauge().GetValue()
			return &value
		}
	}
	return nil
}

// Whoever leads no more wishes for no number of workers: an autoscaler would take the fleet down to zero.
func TestDesiredWorkersAreTheLeadersAlone(t *testing.T) {
	t.Parallel()
	const name = "sched_fleet_desired_workers"
	l := setup(t)
	require.Nil(t, l.gauge(name), "before it leads")
	l.exec(`SELECT sched.enqueue('mail')`)
	l.turn()
	require.NotNil(t, l.gauge(name))
	require.InDelta(t, float64(l.count("SELECT desired_workers FROM sched.fleet_demand")), *l.gauge(name), 0)
	l.router.Reset()
	require.Nil(t, l.gauge(name))
	require.NotNil(t, l.gauge("sched_fleet_slots"))
}
