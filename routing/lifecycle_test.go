package routing_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/routing"
)

func states() []routing.State {
	return []routing.State{routing.StatePending, routing.StateActive, routing.StateDraining, routing.StateDone, routing.StateEvicted}
}

// legal is the whole table, spelled out.
func legal(from, to routing.State) bool {
	return slices.Contains(map[routing.State][]routing.State{
		routing.StatePending:  {routing.StateActive, routing.StateDraining, routing.StateDone, routing.StateEvicted},
		routing.StateActive:   {routing.StateDraining, routing.StateDone, routing.StateEvicted},
		routing.StateDraining: {routing.StateDone, routing.StateEvicted},
	}[from], to)
}

// TestLifecycleHasOneWay: in process and in the database alike, whoever moves.
func TestLifecycleHasOneWay(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for _, from := range states() {
		for _, to := range states() {
			life := routing.NewLifecycle()
			if from != routing.StatePending {
				require.NoError(t, life.Move(routing.StatePending, from))
			}
			_, before := life.State()
			err := life.Move(from, to)
			state, version := life.State()

			id := fmt.Sprintf("%s-%s", from, to)
			exec(t, pool, `insert into sched.worker (id, client_id, state, state_version) values ($1, 'c', $2, 7)`, id, string(from))
			_, sqlErr := pool.Exec(t.Context(), `update sched.worker set state = $2 where id = $1`, id, string(to))
			var row string
			var rowVersion int64
			require.NoError(t, pool.QueryRow(t.Context(), `select state, state_version from sched.worker where id = $1`, id).Scan(&row, &rowVersion))

			if legal(from, to) {
				require.NoError(t, err, id)
				require.Equal(t, to, state)
				require.Equal(t, before+1, version)
				require.NoError(t, sqlErr, id)
				require.Equal(t, string(to), row)
				require.EqualValues(t, 8, rowVersion, "%s: a move counts, also one that forgot to", id)
				continue
			}
			require.ErrorIs(t, err, routing.ErrIllegalMove, id)
			require.Equal(t, from, state)
			require.Equal(t, before, version)
			require.Equal(t, string(from), row)
			require.EqualValues(t, 7, rowVersion)
			if from != to { // writing what is there already is no move
				var pgErr *pgconn.PgError
				require.ErrorAs(t, sqlErr, &pgErr, id)
				require.Equal(t, "SC409", pgErr.Code)
			}
		}
	}
}

func TestLifecycleComparesAndSwaps(t *testing.T) {
	t.Parallel()
	life := routing.NewLifecycle()
	require.NoError(t, life.Move(routing.StatePending, routing.StateActive))
	require.ErrorIs(t, life.Move(routing.StatePending, routing.StateDraining), routing.ErrMoved, "somebody else was first")
	require.ErrorIs(t, life.Move(routing.StateActive, "gone"), routing.ErrIllegalMove)
	require.ErrorIs(t, life.Move("nowhere", routing.StateDone), routing.ErrIllegalMove)
}

// TestMoveIsRefusedInWords: what an operator who tries reads.
func TestMoveIsRefusedInWords(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool, `insert into sched.worker (id, client_id, state) values ('w-1', 'c', 'draining')`)
	_, err := pool.Exec(t.Context(), `update sched.worker set state = 'active'`)
	require.ErrorContains(t, err, "worker w-1 is draining and cannot become active")
}

// TestRegistryMoves: several at once, in any order, never lead back, and exactly
// one of those that wanted a move made it.
func TestRegistryMoves(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	registry := routing.NewRegistry(pool)
	ctx := t.Context()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		id := fmt.Sprintf("w-%d", n)
		require.NoError(t, registry.Register(ctx, routing.Worker{ID: id, ClientID: "c", Protocols: []string{"http"}}))
		at := routing.StatePending
		for range rapid.IntRange(1, 5).Draw(t, "moves") {
			to := rapid.SampledFrom([]routing.State{routing.StateActive, routing.StateDraining, routing.StateDone}).Draw(t, "to")
			moved, err := registry.Move(ctx, id, to, "test")
			require.NoError(t, err)
			require.Equal(t, legal(at, to), moved, "from %s to %s", at, to)
			if moved {
				at = to
			}
		}
	})
	_, err := registry.Move(ctx, "w-1", routing.StatePending, "")
	require.ErrorIs(t, err, routing.ErrIllegalMove)
	moved, err := registry.Move(ctx, "w-none", routing.StateDone, "")
	require.NoError(t, err)
	require.False(t, moved)
}
