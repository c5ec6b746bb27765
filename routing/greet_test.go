package routing_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Between two turns newcomers get what a turn would give them, and the policies that
// sidecars have count as old. A router that has taken no turn yet leaves it to that.
func TestNewcomersAreGreetedBetweenTurns(t *testing.T) {
	t.Parallel()
	l := setup(t)
	greet := func() {
		t.Helper()
		require.NoError(t, l.router.Greet(t.Context()))
	}
	l.worker("w-1", `{}`)
	l.queue("old", `{}`, "any")
	greet()
	require.Empty(t, l.assignments())
	l.turn()
	before := l.texts(`select policy_version::text from sched.fleet`)

	l.queue("new", `{}`, "any")
	greet()
	require.Equal(t, []string{"new w-1 10", "old w-1 10"}, l.assignments())
	require.Equal(t, `["w-1"]`, l.state("new", "wake"))
	require.NotEqual(t, before, l.texts(`select policy_version::text from sched.fleet`))

	l.worker("w-2", `{}`)
	greet()
	require.Equal(t, []string{"new w-1 10", "new w-2 10", "old w-1 10", "old w-2 10"}, l.assignments())
	l.exec(`update sched.worker set state = 'draining' where id = 'w-1'`)
	greet()
	require.Equal(t, []string{"new w-2 10", "old w-2 10"}, l.assignments())
}
