package migrations_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

// wakeUp is what a notification of a new task says.
type wakeUp struct {
	Queue  string `json:"queue"`
	Worker string `json:"worker"`
}

// ears hears the notifications of new tasks.
func ears(t *testing.T, pool *pgxpool.Pool) (heard func() []wakeUp) {
	t.Helper()
	listener := connect(t, pool, "")
	exec(t, listener, `LISTEN "sched.river_insert"`)
	return func() (list []wakeUp) {
		t.Helper()
		// Notifications arrive in order, so one of our own ends the list.
		exec(t, pool, `SELECT pg_notify('sched.river_insert', 'end')`)
		for {
			n, err := listener.WaitForNotification(t.Context())
			require.NoError(t, err)
			if n.Payload == "end" {
				return list
			}
			var w wakeUp
			require.NoError(t, json.Unmarshal([]byte(n.Payload), &w), n.Payload)
			list = append(list, w)
		}
	}
}

func setWake(t *testing.T, db querier, queue string, wake []string) {
	t.Helper()
	exec(t, db, "INSERT INTO sched.queue (name, base, wake) VALUES ($1, $1, $2) ON CONFLICT (name) DO UPDATE SET wake = excluded.wake", queue, wake)
}

// Every statement that makes a task available follows the same rule.
func TestWhomATaskWakes(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	heard := ears(t, pool)
	retried := one[int64](t, pool, "SELECT sched.enqueue('mail', queue => 'q', run_at => now() + interval '1 day')")
	named, everybody := []wakeUp{{"q", "w-1"}}, []wakeUp{{Queue: "q"}}
	for _, tt := range []struct {
		name, sql string
		args      []any
		named     []wakeUp // what is heard when the leader named w-1
	}{
		{"enqueue", "SELECT sched.enqueue('mail', queue => 'q')", nil, named},
		{"enqueue with more", "SELECT sched.enqueue('mail', queue => 'q', headers => '{\"a\": \"b\"}')", nil, named},
		{"two in a transaction", "SELECT sched.enqueue('mail', queue => 'q'), sched.enqueue('mail', queue => 'q')", nil, named},
		{"later", "SELECT sched.enqueue('mail', queue => 'q', run_at => now() + interval '1 hour')", nil, nil},
		{"enqueue_many of one", `SELECT sched.enqueue_many('[{"kind": "mail", "queue": "q"}]')`, nil, everybody},
		{"enqueue_many", `SELECT sched.enqueue_many('[{"kind": "mail", "queue": "q"}, {"kind": "mail", "queue": "q"}]')`, nil, everybody},
		{"retry", "SELECT sched.retry($1)", []any{retried}, named},
		{"wake_queue", "SELECT sched.wake_queue('q')", nil, everybody},
	} {
		for _, wake := range []struct {
			list []string
			want []wakeUp
		}{{nil, everybody}, {[]string{}, nil}, {[]string{"w-1", "w-1"}, tt.named}} {
			setWake(t, pool, "q", wake.list)
			if tt.name == "retry" {
				exec(t, pool, "UPDATE sched.river_job SET state = 'scheduled', scheduled_at = now() + interval '1 day' WHERE id = $1", retried)
			}
			want := wake.want
			if tt.named == nil {
				want = nil
			}
			exec(t, pool, tt.sql, tt.args...)
			require.Equal(t, want, heard(), "%s, wake %v", tt.name, wake.list)
		}
	}
}

func TestNobodyIsWokenForWhatIsRolledBack(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	heard := ears(t, pool)
	setWake(t, pool, "q", []string{"w-1"})
	tx := begin(t, connect(t, pool, ""))
	exec(t, tx, "SELECT sched.enqueue('mail', queue => 'q')")
	require.NoError(t, tx.Rollback(t.Context()))
	require.Empty(t, heard())
	require.Zero(t, one[int](t, pool, "SELECT count(*)::int FROM sched.river_job"))
}

// Each queue goes round its own workers, however many queues take turns with
// their tasks, and whatever the ids are.
func TestWakesAreSpreadEvenly(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for _, start := range []int64{1, 1 << 24, 1<<53 - 5000} {
		for _, stride := range []int{1, 2, 3, 5, 8, 10, 13, 16} {
			for _, workers := range []int{1, 2, 3, 5, 16} {
				const each = 200
				counts := all[int](t, pool, `SELECT count(*)::int FROM (
						SELECT names[1 + floor(cardinality(names) * (turn - floor(turn)))::int] AS chosen FROM (
							SELECT ARRAY(SELECT 'w-' || n FROM generate_series(1, $3::int) AS n) AS names,
								(($1::bigint + $2::int * i::bigint) % 16777216) * 0.6180339887498949::float8 AS turn
							FROM generate_series(1, $3 * $4::int) AS i
						) AS t
					) AS c GROUP BY chosen`, start, stride, workers, each)
				require.Len(t, counts, workers, "stride %d, %d workers", stride, workers)
				for _, n := range counts {
					require.InDelta(t, each, n, each*0.05, "from %d, stride %d, %d workers: %v", start, stride, workers, counts)
				}
			}
		}
	}
}

// What is spread is what the functions choose.
func TestEnqueueWakesInTurns(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	heard := ears(t, pool)
	const queues, rounds = 3, 60
	for q := range queues {
		setWake(t, pool, fmt.Sprintf("q%d", q), []string{"w-1", "w-2", "w-3"})
	}
	conn := connect(t, pool, "")
	for range rounds {
		for q := range queues { // a transaction each: equal notifications of one are merged
			exec(t, conn, "SELECT sched.enqueue('mail', queue => $1)", fmt.Sprintf("q%d", q))
		}
	}
	counts := map[wakeUp]int{}
	for _, w := range heard() {
		counts[w]++
	}
	require.Len(t, counts, queues*3)
	for w, n := range counts {
		require.InDelta(t, rounds/3, n, 2, "%v: %v", w, counts)
	}
}

// Names of workers and queues are data, whatever is in them.
func TestWakeUpsAreJSON(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	heard := ears(t, pool)
	setWake(t, pool, `a"b`, []string{`w"1`})
	exec(t, pool, `SELECT sched.wake_queue('a"b', 7)`)
	require.Equal(t, []wakeUp{{`a"b`, `w"1`}}, heard())
}
