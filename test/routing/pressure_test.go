package routing_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/fleettest"
)

func itoa(n int64) string { return fmt.Sprint(n) }

func (f *fleet) awaitPressure(queue, level string) {
	f.t.Helper()
	f.awaitTrue(fleettest.Soon, "pressure of "+queue+" isn't "+level, "SELECT pressure = $2 FROM sched.queue WHERE name = $1", queue, level)
}

// stayFresh keeps what the leader computed from being too old to count, which it
// is when a busy machine holds the leader up for five seconds.
func (f *fleet) stayFresh() {
	f.t.Helper()
	f.exec(`
		CREATE FUNCTION public.stay_fresh() RETURNS trigger LANGUAGE plpgsql AS
			$$BEGIN NEW.computed_at := clock_timestamp() + interval '1 minute'; RETURN NEW; END$$;
		CREATE TRIGGER stay_fresh BEFORE UPDATE ON sched.fleet FOR EACH ROW WHEN (NEW.computed_at IS NOT NULL) EXECUTE FUNCTION public.stay_fresh()`)
}

// dammed is a fleet that has nobody to run what is enqueued, until the dam is
// opened: then a worker starts.
func dammed(t *testing.T) (f *fleet, a *app, open func()) {
	t.Helper()
	f, a = newFleet(t), newApp(t, nil)
	f.stayFresh()
	f.startLeader()
	f.set("max_pending", 200) // of the fleet
	return f, a, func() { f.start(a, nil) }
}

// Pressure rises with what waits, and each policy at the door does its part; red
// never slows the draining, and on the way down it is green again.
func TestPressureGuardsTheDoor(t *testing.T) {
	t.Parallel()
	f, a, open := dammed(t)
	for _, name := range []string{"accept", "delay", "reject"} {
		f.configure(name, "max_pending = 100, admission = '"+name+"'")
	}
	for _, name := range []string{"accept", "delay", "reject"} {
		f.enqueueMany("load", name, 60)
		f.awaitPressure(name, "green")
	}
	for _, name := range []string{"accept", "delay", "reject"} {
		f.enqueueMany("load", name, 20)
		f.awaitPressure(name, "yellow")
	}
	// By the database's clock around the call: exact, however long the call takes.
	requireDelay := func(name string, want time.Duration) {
		before := one[time.Time](f, "SELECT clock_timestamp()")
		id := f.enqueue("load", queue(name))
		after := one[time.Time](f, "SELECT clock_timestamp()")
		due := one[time.Time](f, "SELECT scheduled_at FROM sched.river_job WHERE id = $1", id)
		require.WithinRange(t, due, before.Add(want), after.Add(want), name)
	}
	requireDelay("delay", 500*time.Millisecond) // yellow
	requireDelay("accept", 0)
	f.enqueue("load", queue("reject"))

	for _, name := range []string{"accept", "delay", "reject"} {
		// Past the door, as it were: bulk tasks of a red queue may be held up by admission.
		f.exec("UPDATE sched.queue SET admission = 'accept' WHERE name = $1", name)
		f.enqueueMany("load", name, 20)
		f.exec("UPDATE sched.queue SET admission = $1 WHERE name = $1", name)
		f.awaitPressure(name, "red")
	}
	requireDelay("delay", 2*time.Second) // red
	requireDelay("accept", 0)
	_, err := f.tryEnqueue("load", queue("reject"))
	var refused *pgconn.PgError
	require.ErrorAs(t, err, &refused, "red rejects")
	require.Equal(t, "SC429", refused.Code)
	require.Contains(t, refused.Detail, "retry", "when to come again")
	require.NotEmpty(t, refused.Hint)

	f.requirePressureShown()
	open()
	f.awaitDrained("load", fleettest.Soon)
	for _, name := range []string{"accept", "delay", "reject"} {
		f.awaitPressure(name, "green")
	}
	f.awaitTrue(fleettest.Soon, "the fleet isn't green", "SELECT pressure = 'green' FROM sched.fleet")
	f.awaitStatus(f.enqueue("load", queue("reject")), "completed")
	require.Positive(t, a.count("load"))
	f.awaitTrue(fleettest.Soon, "a change of pressure isn't in the decisions",
		"SELECT count(*) FILTER (WHERE to_value = 'red') > 0 AND count(*) FILTER (WHERE to_value = 'green') > 0 FROM sched.decision WHERE what = 'pressure' AND subject = 'reject'")
}

// requirePressureShown looks at what people and programs see while queues are red.
func (f *fleet) requirePressureShown() {
	f.t.Helper()
	f.awaitTrue(fleettest.Soon, "the fleet has no pressure", "SELECT pressure <> 'green' FROM sched.fleet")
	for _, call := range []string{"sched.pressure()", "sched.pressure('accept')"} {
		require.Contains(f.t, one[string](f, "SELECT to_jsonb(p)::text FROM "+call+" AS p"), "red", call)
	}
	require.Contains(f.t, f.sched("pressure"), "red")
	require.Contains(f.t, f.sched("queues", "list", "accept"), "red")
}

// Thresholds are settings: they act on the running fleet.
func TestPressureThresholdsAreHot(t *testing.T) {
	t.Parallel()
	f, _, _ := dammed(t)
	f.configure("work", "max_pending = 100")
	f.enqueueMany("load", "work", 50)
	f.awaitPressure("work", "green")
	f.set("pending_yellow", 0.3)
	f.awaitPressure("work", "yellow")
	f.set("pending_red", 0.4)
	f.awaitPressure("work", "red")
	f.exec("UPDATE sched.queue SET max_pending = 1000 WHERE name = 'work'")
	f.awaitPressure("work", "green")
}

// The load of the workers is pressure, too.
func TestLoadIsPressure(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	hold := newGate(t)
	a := newApp(t, func(c *call) reply {
		hold.pass(c)
		return done
	})
	f.start(a, fleettest.Settings{fleettest.SetSlots: "10"})
	f.awaitLed()
	f.enqueueMany("load", "work", 7)
	a.awaitInFlight(t, "work", 7)
	f.awaitPressure("work", "yellow")
	f.enqueueMany("load", "work", 2)
	a.awaitInFlight(t, "work", 9)
	f.awaitPressure("work", "red")
	require.InDelta(t, 0.9, one[float64](f, "SELECT load::float8 FROM sched.queue WHERE name = 'work'"), 0.01)
	hold.open()
	f.awaitPressure("work", "green")
}

// Bulk intake waits at red, and goes on when it is over.
func TestBulkIntakeWaitsAtRed(t *testing.T) {
	t.Parallel()
	f, a, open := dammed(t)
	f.configure("work", "max_pending = 10")
	f.enqueueMany("load", "work", 20)
	f.awaitPressure("work", "red")

	lines := strings.Repeat(`{"kind": "bulk", "queue": "work"}`+"\n", 30)
	path := filepath.Join(t.TempDir(), "tasks.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(lines), 0o600))
	intake := fleettest.Exec(t, programs.Sched, fleettest.Settings{}, "enqueue", "--file", path, "--dsn", f.dsn)
	fleettest.Throughout(t, 3*time.Second, func() bool {
		return one[int](f, "SELECT count(*)::int FROM sched.task WHERE kind = 'bulk'") == 0 && !intake.HasExited()
	}, func() string { return "bulk intake doesn't wait at red: " + intake.Log.String() })
	open()
	require.Zero(t, intake.AwaitExit(t, fleettest.Soon), intake.Log)
	f.awaitDrained("bulk", fleettest.Soon)
	require.Equal(t, 30, a.count("bulk"))
}
