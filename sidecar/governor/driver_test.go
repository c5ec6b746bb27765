package governor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/require"
)

// away is an executor of a database that comes back at some time.
type away struct {
	riverdriver.Executor
	back time.Time
}

var errAway = errors.New("connection refused")

func (a *away) Begin(context.Context) (riverdriver.ExecutorTx, error) {
	if time.Now().Before(a.back) {
		return nil, errAway
	}
	return nil, nil //nolint:nilnil // a transaction that nobody looks into
}

// River pauses for ever longer after elections that fail, but not after those that
// are lost.
func TestElectionWaitsForPostgres(t *testing.T) {
	t.Parallel()
	const electionTimeout = 5 * time.Second
	for name, test := range map[string]struct {
		outage, took time.Duration
		err          error
	}{
		"there":      {},
		"back soon":  {outage: 2 * time.Second, took: 2 * time.Second},
		"still away": {outage: time.Minute, took: electionTimeout, err: rivertype.ErrNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), electionTimeout)
				defer cancel()
				started := time.Now()

				_, err := executor{&away{back: started.Add(test.outage)}, func() bool { return true }}.Begin(ctx)

				require.Equal(t, test.took, time.Since(started))
				require.ErrorIs(t, err, test.err)
				if test.err != nil {
					require.ErrorIs(t, err, errAway, "why is said too")
				}
			})
		})
	}
}

// While another is known to lead there is no election, and no statement of one.
func TestNoElectionWhileAnotherLeads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &Governor{}
		require.True(t, g.mayElect(), "nothing is known")
		g.noteLed(true, time.Now())
		require.False(t, g.mayElect())
		_, err := executor{nil, g.mayElect}.Begin(t.Context())
		require.ErrorIs(t, err, rivertype.ErrNotFound)
		<-time.After(ledSure)
		require.True(t, g.mayElect(), "no sign of it any more")
		g.noteLed(true, time.Now())
		g.leading.Store(true)
		require.True(t, g.mayElect(), "a leader renews his leadership")
		g.leading.Store(false)
		g.noteLed(false, time.Now())
		require.True(t, g.mayElect(), "it said that it stops")
	})
}
