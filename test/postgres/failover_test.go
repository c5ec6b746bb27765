package postgres_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/devpg"
)

// pair is a primary and its physical standby.
type pair struct {
	primary, standby *devpg.Server
	dsn              string // names both, the primary first
}

// startStandby makes the stage's server a primary that confirms nothing which the
// standby doesn't have. through, if it isn't empty, is the primary's address in
// the connection string of both.
func startStandby(t *testing.T, primary *devpg.Server, through string) *pair {
	t.Helper()
	basebackup := filepath.Join(primary.BinDir(), "pg_basebackup")
	if _, err := os.Stat(basebackup); err != nil {
		t.Skip("there is no pg_basebackup beside the server: ", err)
	}
	// As a directory that devpg made, with the primary's data and password in it.
	dir := serverDir(t)
	password, err := os.ReadFile(filepath.Join(primary.Dir(), "password"))
	require.NoError(t, err)
	for name, content := range map[string]string{"lock": "", "password": string(password)} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
		give(t, filepath.Join(dir, name))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, basebackup, "-D", filepath.Join(dir, "data"), "-h", primary.SocketDir(),
		"-p", strconv.Itoa(primary.Port()), "-U", "postgres", "--write-recovery-conf", "--checkpoint=fast", "--no-sync")
	cmd.Dir = dir
	unprivileged(t, cmd)
	out, err := cmd.CombinedOutput()
	require.NoErrorf(t, err, "pg_basebackup: %s", out)
	standby, err := devpg.Start(ctx, devpg.Options{
		Dir: dir, BinDir: primary.BinDir(),
		Settings: map[string]string{"fsync": "off"},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, standby.Stop()) })

	db := open(t, primary.DSN())
	for _, setting := range []string{"synchronous_standby_names = '*'", "synchronous_commit = on"} {
		execute(t, db, "ALTER SYSTEM SET "+setting)
	}
	execute(t, db, "SELECT pg_reload_conf()")
	eventually(t, soon, func() bool {
		return one[int](t, db, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == 1
	}, func() string { return "the standby isn't synchronous" })

	first, err := url.Parse(primary.DSN())
	require.NoError(t, err)
	second, err := url.Parse(standby.DSN())
	require.NoError(t, err)
	if through != "" {
		first.Host = through
	}
	first.Host += "," + second.Host
	return &pair{primary: primary, standby: standby, dsn: first.String()}
}

func (p *pair) promote(t *testing.T) {
	t.Helper()
	require.True(t, one[bool](t, open(t, p.standby.DSN()), "SELECT pg_promote(true, 30)"))
}

// producer enqueues all the time, wherever it can, and remembers what was
// confirmed.
type producer struct {
	stop func()

	mu  sync.Mutex
	ids []int64
}

func startProducer(t *testing.T, dsn string) *producer {
	t.Helper()
	config, err := pgxpool.ParseConfig(dsn + "&target_session_attrs=read-write&connect_timeout=2")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	p := &producer{}
	var wg sync.WaitGroup
	p.stop = func() { cancel(); wg.Wait() }
	t.Cleanup(p.stop)
	wg.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				p.enqueueUntilItFails(ctx, config)
			case <-ctx.Done():
				return
			}
		}
	})
	return p
}

// enqueueUntilItFails uses one connection, as long as it confirms.
func (p *producer) enqueueUntilItFails(ctx context.Context, config *pgxpool.Config) {
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return
	}
	defer conn.Close(context.WithoutCancel(ctx))
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var id int64
		tryCtx, cancel := context.WithTimeout(ctx, time.Second)
		err := conn.QueryRow(tryCtx, "SELECT sched.enqueue('load')").Scan(&id)
		cancel()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.ids = append(p.ids, id)
		p.mu.Unlock()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (p *producer) confirmed() []int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]int64(nil), p.ids...)
}

// failOver works tasks on a pair, has lose end the primary's reign in its way, and
// promotes the standby. It returns how long after that a task began that was
// enqueued on the new primary. Nothing that was confirmed may be lost.
func (s *stage) failOver(t *testing.T, p *pair, lose func(*pair)) time.Duration {
	t.Helper()
	var sides []*program
	for range 2 {
		sides = append(sides, startSidecar(t, p.dsn, s.app.url, nil))
	}
	load := startProducer(t, p.dsn)
	eventually(t, soon, func() bool { return len(load.confirmed()) > 50 }, func() string { return "no load" })
	before := len(load.confirmed())

	lose(p)
	p.promote(t)
	promoted := time.Now()
	// The first task that is begun after it was enqueued here.
	db := open(t, p.standby.DSN())
	first := one[int64](t, db, "SELECT sched.enqueue('first')")
	took := s.app.await(t, first, 1, time.Minute).began.Sub(promoted)

	eventually(t, soon, func() bool { return len(load.confirmed()) > before+50 }, func() string { return "the load doesn't go on" })
	load.stop()
	ids := load.confirmed()
	eventually(t, time.Minute, func() bool {
		return one[int](t, db, "SELECT count(*) FROM sched.task WHERE status <> 'completed'") == 0
	}, func() string {
		return fmt.Sprint("not drained: ", all[string](t, db, "SELECT status || ' ' || count(*) FROM sched.task GROUP BY status"))
	})
	drained := time.Since(promoted)
	require.Equal(t, len(ids), one[int](t, db, "SELECT count(*) FROM sched.task WHERE id = any($1) AND status = 'completed'", ids), "a task was lost")
	for _, id := range ids {
		require.NotEmpty(t, s.app.callsOf(id))
	}
	t.Logf("after the promotion: next task within %s, all of %d settled within %s", took, len(ids), drained)
	for _, side := range sides {
		side.awaitMetric(t, "sched_listening", 1, time.Minute)
	}
	return took
}

func TestFailoverFromAKilledPrimary(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	took := s.failOver(t, startStandby(t, s.server, ""), func(p *pair) { require.NoError(t, p.primary.Kill()) })
	require.Less(t, took, healed)
}

// The old primary lives on and takes reads only.
func TestFailoverFromAReadOnlyPrimary(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	took := s.failOver(t, startStandby(t, s.server, ""), readOnly(t))
	require.Less(t, took, healed)
	require.True(t, one[bool](t, open(t, s.server.DSN()), "SELECT current_setting('transaction_read_only')::bool"))
}

// readOnly has a primary refuse to write, with all its connections open.
func readOnly(t *testing.T) func(*pair) {
	t.Helper()
	return func(p *pair) {
		db := open(t, p.primary.DSN())
		execute(t, db, "ALTER SYSTEM SET default_transaction_read_only = on")
		execute(t, db, "SELECT pg_reload_conf()")
	}
}

// The old primary's machine is cut off: nothing is refused, nothing is answered.
func TestFailoverFromAVanishedPrimary(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	cable := newCable(t, net.JoinHostPort("127.0.0.1", strconv.Itoa(s.server.Port())))
	took := s.failOver(t, startStandby(t, s.server, cable.address), func(*pair) { cable.cut() })
	require.Less(t, took, 3*healed)
}

// cable is a network connection that can be cut.
type cable struct {
	address string
	mu      sync.Mutex
	conns   []net.Conn
	dead    chan struct{} // closed: bytes are swallowed
}

func newCable(t *testing.T, to string) *cable {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &cable{address: listener.Addr().String(), dead: make(chan struct{})}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				_ = near.Close()
				continue
			}
			c.mu.Lock()
			c.conns = append(c.conns, near, far)
			c.mu.Unlock()
			wg.Go(func() { c.copy(near, far) })
			wg.Go(func() { c.copy(far, near) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		c.mu.Lock()
		for _, conn := range c.conns {
			_ = conn.Close()
		}
		c.mu.Unlock()
		wg.Wait()
	})
	return c
}

// copy forwards until the cable is cut; from then on it swallows.
func (c *cable) copy(to, from net.Conn) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			break
		}
		select {
		case <-c.dead:
			continue
		default:
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			break
		}
	}
	select {
	case <-c.dead: // the other side hears nothing of it
	default:
		_ = to.Close()
		_ = from.Close()
	}
}

func (c *cable) cut() { close(c.dead) }
