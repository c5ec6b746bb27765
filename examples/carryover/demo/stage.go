package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sched-sidecar/sched/examples/carryover/books"
	"github.com/sched-sidecar/sched/internal/devpg"
	"github.com/sched-sidecar/sched/migrations"
)

// stopGrace is how long a child gets to end by itself when the demo clears up.
const stopGrace = 8 * time.Second

// pair is an instance of the app with the sidecar beside it.
type pair struct {
	name    string // "A" or "B"
	appAddr string
	admin   string // the sidecar's admin address
	app     *process
	sidecar *process
}

// stage is all that the demo starts, and knows how to clear away.
type stage struct {
	options
	out      *screen
	dir      string // binaries and logs
	keepLogs bool
	postgres *devpg.Server
	pool     *pgxpool.Pool
	pairs    []*pair
}

func newStage(o options, out *screen) *stage {
	return &stage{options: o, out: out}
}

// set starts everything up to the point where both sidecars are at work.
func (st *stage) set(ctx context.Context) error {
	if err := st.openBooks(ctx); err != nil {
		return err
	}
	ports, err := freeAddrs(ctx, 4)
	if err != nil {
		return err
	}
	for i, name := range []string{"A", "B"} {
		p := &pair{name: name, appAddr: ports[2*i], admin: ports[2*i+1]}
		st.pairs = append(st.pairs, p)
		if err := st.startApp(ctx, p); err != nil {
			return err
		}
		if err := st.startSidecar(ctx, p); err != nil {
			return err
		}
	}
	if err := st.awaitWorkers(ctx); err != nil {
		return err
	}
	for _, p := range st.pairs {
		st.out.say("pair %s is up: app pid %d on %s, sidecar pid %d beside it, %d slots",
			p.name, p.app.pid(), p.appAddr, p.sidecar.pid(), st.slots)
	}
	return nil
}

// build says what is to come and compiles the real binaries, unless they are given.
func (st *stage) build(ctx context.Context) error {
	st.out.print("Month-end %s: %s orders in tasks of 500, one Postgres, two instances of an app, a sidecar beside each.",
		month, thousands(int64(st.orders)))
	st.out.print("Half-way, half of that gets killed. Every order must be carried exactly once.")
	var err error
	if st.dir, err = os.MkdirTemp("", "carryover-"); err != nil {
		return fmt.Errorf("make a directory for binaries and logs: %w", err)
	}
	if st.bin != "" {
		return nil
	}
	st.out.status("building sched-sidecar and the example app …")
	st.bin = filepath.Join(st.dir, "bin")
	const module = "github.com/sched-sidecar/sched/"
	// As make build does, so that neither compiles what the other has.
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", st.bin+string(filepath.Separator),
		module+"cmd/sched-sidecar", module+"examples/carryover")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the binaries (run the demo inside the repository, or give -bin): %w\n%s", err, output)
	}
	st.out.say("built sched-sidecar and the example app")
	return nil
}

// openBooks starts Postgres with the schema sched and the shop's orders in it.
func (st *stage) openBooks(ctx context.Context) error {
	st.out.status("starting Postgres …")
	var err error
	if st.postgres, err = devpg.Start(ctx, devpg.Options{}); err != nil {
		return fmt.Errorf("start the embedded Postgres: %w", err)
	}
	dsn := st.postgres.DSN()
	if err := migrations.Up(ctx, dsn, migrations.Options{}); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if st.pool, err = pgxpool.New(ctx, dsn); err != nil {
		return fmt.Errorf("connect to the embedded Postgres: %w", err)
	}
	if err := books.Create(ctx, st.pool, st.orders); err != nil {
		return err
	}
	var version string
	if err := st.pool.QueryRow(ctx, "select current_setting('server_version')").Scan(&version); err != nil {
		return fmt.Errorf("ask Postgres for its version: %w", err)
	}
	st.out.say("embedded Postgres %s is up, migrated, with %s orders in the books", version, thousands(int64(st.orders)))
	return nil
}

// startApp starts the app of a pair, again if it was killed.
func (st *stage) startApp(ctx context.Context, p *pair) error {
	var err error
	p.app, err = launch(ctx, "app "+p.name, st.logPath("app-"+p.name),
		[]string{"DATABASE_URL=" + st.postgres.DSN()},
		filepath.Join(st.bin, "carryover"), "-listen", p.appAddr, "-pace", st.pace.String())
	return err
}

func (st *stage) startSidecar(ctx context.Context, p *pair) error {
	var err error
	p.sidecar, err = launch(ctx, "sidecar "+p.name, st.logPath("sidecar-"+p.name),
		[]string{
			"SCHED_DATABASE_URL=" + st.postgres.DSN(),
			"SCHED_APP_URL=http://" + p.appAddr,
			"SCHED_ADMIN_ADDR=" + p.admin,
			fmt.Sprintf("SCHED_SLOTS_CEILING=%d", st.slots),
		},
		filepath.Join(st.bin, "sched-sidecar"), "run")
	return err
}

func (st *stage) logPath(name string) string { return filepath.Join(st.dir, name+".log") }

// awaitWorkers waits until each sidecar is an active worker.
func (st *stage) awaitWorkers(ctx context.Context) error {
	for {
		active := 0
		for _, p := range st.pairs {
			var is bool
			if err := st.pool.QueryRow(ctx, activeSQL, p.sidecar.pid()).Scan(&is); err != nil {
				return fmt.Errorf("wait for sidecar %s: %w", p.name, err)
			}
			if is {
				active++
			}
		}
		if active == len(st.pairs) {
			return nil
		}
		if err := st.tick(ctx); err != nil {
			return fmt.Errorf("wait for the sidecars to register: %w", err)
		}
	}
}

// tickEvery is the rhythm in which the demo looks at what happens.
const tickEvery = 200 * time.Millisecond

// tick waits for the next look. It fails when a child has ended that nobody
// killed, or ctx has.
func (st *stage) tick(ctx context.Context) error {
	for _, c := range st.children() {
		if how, ended := c.ended(); ended && !c.killed {
			return fmt.Errorf("%s (pid %d) ended by itself: %s; see its log", c.name, c.pid(), how)
		}
	}
	timer := time.NewTimer(tickEvery)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

func (st *stage) children() []*process {
	var all []*process
	for _, p := range st.pairs {
		for _, c := range []*process{p.sidecar, p.app} {
			if c != nil {
				all = append(all, c)
			}
		}
	}
	return all
}

// clear ends all that was started: sidecars, then apps, then Postgres.
func (st *stage) clear() {
	var sidecars, apps []*process
	for _, p := range st.pairs {
		sidecars, apps = append(sidecars, p.sidecar), append(apps, p.app)
	}
	stopAll(sidecars)
	stopAll(apps)
	var err error
	if st.pool != nil {
		st.pool.Close()
	}
	if st.postgres != nil {
		err = st.postgres.Stop()
	}
	if st.dir != "" {
		remove := st.dir
		if st.keepLogs {
			remove = filepath.Join(st.dir, "bin")
		}
		err = errors.Join(err, os.RemoveAll(remove))
	}
	if err != nil {
		st.out.say("while clearing up: %v", err)
	}
}

// stopAll stops processes side by side.
func stopAll(all []*process) {
	var wait sync.WaitGroup
	for _, p := range all {
		if p != nil {
			wait.Go(func() { p.stop(stopGrace) })
		}
	}
	wait.Wait()
}

// freeAddrs finds local addresses that nobody listens on. All are held before
// any is given back, so no two are the same.
func freeAddrs(ctx context.Context, n int) ([]string, error) {
	var addrs []string
	for range n {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer func() { _ = listener.Close() }()
		addrs = append(addrs, listener.Addr().String())
	}
	return addrs, nil
}

// tail is the end of a child's log.
func tail(path string, lines int) []string {
	data, err := os.ReadFile(path)
	if err != nil {
		return []string{err.Error()}
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return all[max(0, len(all)-lines):]
}
