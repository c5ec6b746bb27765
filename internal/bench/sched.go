package bench

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/sched-sidecar/sched/migrations"
)

// schedTable is where sched keeps its tasks.
const schedTable = "sched.river_job"

// migrateSched gives a database the schema sched.
func migrateSched(ctx context.Context, db *database) error {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	// Roles belong to the whole server and take no part in a measurement.
	return migrations.Up(ctx, db.dsn, migrations.Options{NoRoles: true})
}

// fillSched enqueues tasks that do nothing, in bulk.
func fillSched(ctx context.Context, db *database, tasks int) error {
	return fillKind(ctx, db, noopKind, tasks)
}

func fillKind(ctx context.Context, db *database, kind string, tasks int) error {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	const fill = `select count(*) from sched.enqueue_many((
		select jsonb_agg(jsonb_build_object('kind', $1::text, 'args', jsonb_build_object('n', n)))
		from generate_series($2::int, $3::int) as n))`
	for done := 0; done < tasks; done += fillBatch {
		last := min(done+fillBatch, tasks)
		if _, err := db.pool.Exec(ctx, fill, kind, done+1, last); err != nil {
			return fmt.Errorf("filling sched's table: %w", err)
		}
	}
	return nil
}

// sidecarOptions are what a scenario sets of a sidecar; everything else is as it
// ships.
type sidecarOptions struct {
	slots   int
	pprof   bool
	url     string // of the app's tasks; empty: by its own address, or
	listen  string // where it opens its session, or
	command string // what is run for each task
	env     []string
	before  bool // of the release before the routing layer, which refuses settings that it doesn't know
}

// startSidecar runs a sidecar beside an app and waits until it listens, which it
// does just before it starts to claim.
func (r *Runner) startSidecar(ctx context.Context, db *database, app *child, set sidecarOptions) (*child, error) {
	return startSidecarOf(ctx, r.config.Sidecar, db, app, set)
}

// startSidecarOf is startSidecar for the sidecar of another release.
func startSidecarOf(ctx context.Context, command []string, db *database, app *child, set sidecarOptions) (*child, error) {
	env := []string{
		"SCHED_DATABASE_URL=" + db.dsn,
		"SCHED_DATABASE_POOL_MAX=" + strconv.Itoa(poolMax),
		"SCHED_ADMIN_ADDR=127.0.0.1:0",
		"SCHED_ADMIN_PPROF=" + strconv.FormatBool(set.pprof),
		"SCHED_LOG_FORMAT=json", // its address is found in the log
	}
	if !set.before {
		env = append(env, "SCHED_TOKENS_RATE=0") // it protects an app, which none of these needs
	}
	switch {
	case set.command != "":
		env = append(env, "SCHED_APP_PROTOCOL=exec", "SCHED_APP_COMMAND="+set.command)
	case set.listen != "":
		env = append(env, "SCHED_APP_PROTOCOL=grpc", "SCHED_APP_LISTEN="+set.listen)
	default:
		env = append(env, "SCHED_APP_URL="+cmp.Or(set.url, "http://"+app.addr+"/tasks"))
	}
	if set.slots > 0 {
		env = append(env, "SCHED_SLOTS_CEILING="+strconv.Itoa(set.slots))
	}
	return startChild(ctx, "sidecar", command, append(env, set.env...))
}

// startApp runs the app process.
func (r *Runner) startApp(ctx context.Context, args ...string) (*child, error) {
	return r.startAppIn(ctx, nil, args...)
}

// startAppIn runs the app process in an environment.
func (r *Runner) startAppIn(ctx context.Context, env []string, args ...string) (*child, error) {
	return startChild(ctx, "app", r.worker(WorkerApp, args...), env)
}

// startSessionApp runs the app process that opens a session at an address, once
// somebody listens there.
func (r *Runner) startSessionApp(ctx context.Context, listen string, window int, args ...string) (*child, error) {
	args = append([]string{"-target", listen, "-window", strconv.Itoa(window)}, args...)
	return startChild(ctx, "app", r.worker(WorkerSession, args...), nil)
}

// startRiverClient runs a River client in a process of its own, workers included.
func (r *Runner) startRiverClient(ctx context.Context, db *database, args ...string) (*child, error) {
	return startChild(ctx, "River client", r.worker(WorkerRiver, args...), []string{envDSN + "=" + db.dsn})
}

func (r *Runner) worker(name string, args ...string) []string {
	command := append([]string{}, r.config.Worker...)
	return append(append(command, name), args...)
}

// awaitStarts waits until a worker process has started n tasks.
func awaitStarts(ctx context.Context, worker *child, n int) error {
	return worker.get(ctx, pathWait+"?n="+strconv.Itoa(n), func(body io.Reader) error {
		_, err := io.Copy(io.Discard, body)
		return err
	})
}

// pollUntil asks every few milliseconds until done says so, fails, or ctx ends.
func pollUntil(ctx context.Context, every time.Duration, done func(context.Context) (bool, error)) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if ok, err := done(ctx); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
