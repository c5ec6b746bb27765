package audit_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

// Decisions of other kinds, however many, leave out none about slots: the latest of the span are told, in order.
func TestScalingAmongOtherDecisions(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	_, err := pool.Exec(t.Context(), `
		INSERT INTO sched.decision (at, what, subject, who, reason)
		SELECT now() - interval '50 minutes' + g * interval '10 ms', 'assignment', 'q', 'w-one', 'labels match' FROM generate_series(1, 101000) AS g;
		INSERT INTO sched.decision (at, what, subject, who, from_value, to_value, reason) VALUES
			(now() - interval '55 minutes', 'slots', 'w-one', 'w-one', '1', '2', 'first'), (now() - interval '2 minutes', 'slots', 'w-one', 'w-one', '2', '4', 'second'),
			(now() - interval '1 minute', 'slots observed', 'w-two', 'w-two', '4', '8', 'third'), (now() - interval '2 hours', 'slots', 'w-one', 'w-one', '1', '1', 'before');
		ANALYZE sched.decision`)
	require.NoError(t, err)
	conn, err := pgx.Connect(t.Context(), pgtest.DSN(pool))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.Background())) })
	q := questions(t)["scaling"]
	reasons := func(values map[string]string) (all []string) {
		for _, row := range asked(t, conn, q, values) {
			require.Equal(t, row["reason"] == "third", row["observed"])
			all = append(all, row["reason"].(string))
		}
		return all
	}

	require.Equal(t, []string{"first", "second", "third"}, reasons(nil))
	require.Equal(t, []string{"second", "third"}, reasons(map[string]string{"limit": "2"}))
	require.Equal(t, []string{"first", "second"}, reasons(map[string]string{"worker": "w-one"}))

	args, err := q.Bind(nil, ago)
	require.NoError(t, err)
	rows, err := conn.Query(t.Context(), "EXPLAIN (COSTS OFF) "+q.SQL, pgx.QueryExecModeSimpleProtocol, pgx.NamedArgs(args))
	require.NoError(t, err)
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Contains(t, strings.Join(plan, "\n"), "decision_slots_index")
}
