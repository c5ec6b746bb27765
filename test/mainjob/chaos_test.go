package mainjob_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/devpg"

	"github.com/sched-sidecar/sched/internal/fleettest"
)

func TestKilledEverythingLosesNothing(t *testing.T) {
	t.Parallel()
	newChaos(t, 2, quick()).run(6, 150, leaderless+soon)
}

// chaos is a fleet with a process for everything, to be killed.
type chaos struct {
	*fleet
	server   *devpg.Server
	set      settings
	apps     []*appProcess
	sidecars []*sidecar
	ids      []int64
}

func newChaos(t *testing.T, pairs int, set settings) *chaos {
	t.Helper()
	f, server := newPrivateFleet(t)
	c := &chaos{fleet: f, server: server, set: set.plus(settings{setSlots: "20"})}
	for i := range pairs {
		c.apps = append(c.apps, startAppProcess(t, f.dsn, fleettest.FreeAddress(t)))
		c.sidecars = append(c.sidecars, nil)
		c.startSidecar(i)
	}
	return c
}

func (c *chaos) startSidecar(i int) {
	c.t.Helper()
	c.sidecars[i] = startSidecar(c.t, c.dsn, "http://"+c.apps[i].address, c.set)
}

// run enqueues load and kills a victim, again and again, in turn of what dies
// and at random who. Then everything must be done within the limit.
func (c *chaos) run(rounds, load int, limit time.Duration) {
	c.t.Helper()
	for round := range rounds {
		c.ids = append(c.ids, enqueueMany(c.t, c.db, "load", load)...)
		c.awaitEffects(min(c.countEffects()+load/5, len(c.ids)))
		i := rand.IntN(len(c.apps))
		switch round % 3 {
		case 0:
			c.sidecars[i].kill()
			c.startSidecar(i)
		case 1:
			c.apps[i].kill()
			c.apps[i] = startAppProcess(c.t, c.dsn, c.apps[i].address)
		case 2:
			require.NoError(c.t, c.server.Kill())
			require.NoError(c.t, c.server.Restart(context.WithoutCancel(c.t.Context())))
			c.awaitDatabase()
		}
	}
	awaitDrained(c.t, c.db, "load", limit)
	c.requireEffectsOnce(c.ids)
}
