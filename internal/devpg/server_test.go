package devpg

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

const (
	patience  = time.Minute
	pollEvery = 10 * time.Millisecond
)

func start(t *testing.T, opts Options) *Server {
	t.Helper()
	opts.NoInstall = true
	s, err := Start(t.Context(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop()) })
	return s
}

func query[T any](t *testing.T, dsn, sql string) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	require.NoError(t, err)
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, sql)
	require.NoError(t, err)
	value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	require.NoError(t, err)
	return value
}

func TestServer_StartStop(t *testing.T) {
	t.Parallel()
	s := start(t, Options{Settings: map[string]string{"work_mem": "7MB", "cluster_name": `it's a \ name`}})
	pid := s.Pid()

	require.Equal(t, "postgres", query[string](t, s.DSN(), "SELECT current_database()"))
	require.Equal(t, "template1", query[string](t, s.DSNFor("template1"), "SELECT current_database()"))
	require.True(t, query[bool](t, s.SocketDSN("postgres"), "SELECT inet_server_addr() IS NULL"))
	require.Equal(t, "7MB", query[string](t, s.DSN(), "SHOW work_mem"))
	require.Equal(t, `it's a \ name`, query[string](t, s.DSN(), "SHOW cluster_name"))
	for setting, value := range map[string]string{
		"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "max_connections": "300",
		"listen_addresses": "127.0.0.1", "port": strconv.Itoa(s.Port()), "server_encoding": "UTF8",
	} {
		require.Equal(t, value, query[string](t, s.DSN(), "SHOW "+setting), setting)
	}
	require.FileExists(t, filepath.Join(s.BinDir(), "initdb"))
	require.FileExists(t, filepath.Join(s.SocketDir(), ".s.PGSQL."+strconv.Itoa(s.Port())))

	require.NoError(t, s.Stop())
	require.False(t, processAlive(pid))
	require.NoDirExists(t, s.Dir())
	require.NoDirExists(t, s.SocketDir())
	require.Zero(t, s.Pid())
	require.NoError(t, s.Stop(), "a second stop does nothing")
	require.ErrorIs(t, s.Restart(t.Context()), ErrStopped)
	require.ErrorIs(t, s.Kill(), ErrStopped)
}

func TestServer_IsPrivateAndNotRoot(t *testing.T) {
	t.Parallel()
	s := start(t, Options{Fast: true})

	info, err := os.Stat(s.Dir())
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	wrong, err := pgx.ParseConfig(s.DSN())
	require.NoError(t, err)
	wrong.Password = "guess"
	_, err = pgx.ConnectConfig(t.Context(), wrong)
	require.ErrorContains(t, err, "password authentication failed")
	require.Equal(t, "off", query[string](t, s.DSN(), "SHOW fsync"), "fast")

	if os.Geteuid() != 0 {
		return
	}
	uid, err := ownerOf(t, s.Pid())
	require.NoError(t, err)
	require.NotZero(t, uid, "started by root, run by another")
	require.Equal(t, uid, ownerOfFile(t, info))
}

func TestServer_KillAndRestart(t *testing.T) {
	t.Parallel()
	s := start(t, Options{Fast: true, Settings: map[string]string{"synchronous_commit": "on"}})
	query[int](t, s.DSN(), "WITH t AS (SELECT set_config('a.b', '1', false)) SELECT 1 FROM t")
	conn, err := pgx.Connect(t.Context(), s.DSN())
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "CREATE TABLE kept AS SELECT 42 AS answer")
	require.NoError(t, err)
	pid, port := s.Pid(), s.Port()
	children := childrenOf(pid)
	require.NotEmpty(t, children)

	require.NoError(t, s.Kill())
	for _, dead := range append(children, pid) {
		require.False(t, processAlive(dead))
	}
	require.Zero(t, s.Pid())
	require.Error(t, conn.Ping(t.Context()))
	require.NoError(t, s.Kill(), "killing a dead server does nothing")

	require.NoError(t, s.Restart(t.Context()))
	require.Equal(t, port, s.Port())
	require.NotEqual(t, pid, s.Pid())
	require.Equal(t, 42, query[int](t, s.DSN(), "SELECT answer FROM kept"))

	require.NoError(t, s.Restart(t.Context()), "a running server restarts, too")
	require.Equal(t, 42, query[int](t, s.DSN(), "SELECT answer FROM kept"))
}

func TestStart_KeepsDirAndRecoversStaleOne(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(tempDir(t), "kept")
	first := start(t, Options{Dir: dir, Fast: true})
	dsn, port := first.DSN(), first.Port()
	require.Equal(t, "kept", query[string](t, dsn, "SELECT set_config('x.y', 'kept', false)"))
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "CREATE DATABASE kept")
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))

	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = lockDir(impatient, first.layout.lock())
	require.ErrorIs(t, err, ErrDirInUse)

	require.NoError(t, first.Stop())
	pidFile := filepath.Join(dir, "data", "postmaster.pid")
	require.NoFileExists(t, pidFile)
	// As after a power cut, with the pid taken by another process since: ours, which certainly lives.
	stale := strconv.Itoa(os.Getpid()) + "\n" + filepath.Join(dir, "data") + "\n1\n" + strconv.Itoa(port) + "\n"
	require.NoError(t, os.WriteFile(pidFile, []byte(stale), 0o600))

	second := start(t, Options{Dir: dir, Port: port})
	require.Equal(t, dsn, second.DSN(), "password and port stay")
	require.Equal(t, "kept", query[string](t, second.DSNFor("kept"), "SELECT current_database()"))
	require.Equal(t, "on", query[string](t, second.DSN(), "SHOW fsync"), "settings are those of this start")
	require.NoError(t, second.Stop())
	require.DirExists(t, dir)
}

func TestStart_LongPathKeepsSocketElsewhere(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	for len(dir) < 120 {
		dir = filepath.Join(dir, "a-long-name-of-a-directory")
	}
	require.NoError(t, os.MkdirAll(filepath.Dir(dir), 0o755))
	s := start(t, Options{Dir: dir, Fast: true})
	require.NotContains(t, s.SocketDir(), dir)
	require.Equal(t, 1, query[int](t, s.SocketDSN("postgres"), "SELECT 1"))
	require.NoError(t, s.Stop())
	require.NoDirExists(t, s.SocketDir())
}

func TestStart_RefusesStrangersDir(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "thesis.txt"), nil, 0o644))
	before, err := os.Stat(dir)
	require.NoError(t, err)

	_, err = Start(t.Context(), Options{Dir: dir, NoInstall: true})
	require.ErrorContains(t, err, "is not empty")
	after, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, before.Mode(), after.Mode())
	require.Equal(t, ownerOfFile(t, before), ownerOfFile(t, after))
	require.NoFileExists(t, filepath.Join(dir, "lock"))
}

func TestStart_PreferredPorts(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, taken.Close()) })
	address, err := netip.ParseAddrPort(taken.Addr().String())
	require.NoError(t, err)
	free := 20_000 + rand.IntN(10_000) // below those that are given to whoever asks for any

	s := start(t, Options{Fast: true, PreferPorts: []int{int(address.Port()), free}})
	require.Equal(t, free, s.Port(), "the first that is free")
	other := start(t, Options{Fast: true, PreferPorts: []int{int(address.Port()), free}})
	require.NotContains(t, []int{int(address.Port()), free}, other.Port(), "or another one")
}

func TestStart_PortTaken(t *testing.T) {
	t.Parallel()
	taken, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, taken.Close()) })
	address, err := netip.ParseAddrPort(taken.Addr().String())
	require.NoError(t, err)

	_, err = Start(t.Context(), Options{Fast: true, Port: int(address.Port()), NoInstall: true})
	require.ErrorIs(t, err, errPortTaken)
	require.ErrorContains(t, err, fmt.Sprintf("port %d", address.Port()))
}

func TestStart_SaysWhyPostgresRefused(t *testing.T) {
	t.Parallel()
	_, err := Start(t.Context(), Options{Fast: true, NoInstall: true, Settings: map[string]string{"work_mem": "a lot"}})
	require.ErrorContains(t, err, `invalid value for parameter "work_mem": "a lot"`)
}

func TestStart_Concurrently(t *testing.T) {
	t.Parallel()
	const servers = 3
	var wg sync.WaitGroup
	dsns := make([]string, servers)
	for i := range dsns {
		wg.Go(func() {
			s, err := Start(t.Context(), Options{Fast: true, NoInstall: true})
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { require.NoError(t, s.Stop()) })
			dsns[i] = s.DSN()
		})
	}
	wg.Wait()
	seen := make(map[string]bool)
	for _, dsn := range dsns {
		seen[query[string](t, dsn, "SHOW data_directory")] = true
	}
	require.Len(t, seen, servers)
}

func TestServer_RestartAfterCrash(t *testing.T) {
	t.Parallel()
	s := start(t, Options{Fast: true})
	conn, err := pgx.Connect(t.Context(), s.SocketDSN("postgres"))
	require.NoError(t, err)
	busy := make(chan error, 1)
	go func() {
		// Outlives its postmaster for as long as it computes, and keeps the shared memory.
		_, err := conn.Exec(context.Background(), "SELECT count(*) FROM generate_series(1, 1e12::bigint)")
		busy <- err
	}()
	require.Eventually(t, func() bool {
		return query[int](t, s.SocketDSN("postgres"),
			"SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid() AND backend_type = 'client backend'") > 0
	}, patience, pollEvery)

	require.NoError(t, syscall.Kill(s.Pid(), syscall.SIGKILL))
	require.NoError(t, s.Restart(t.Context()))
	require.Error(t, <-busy)
	require.Equal(t, 1, query[int](t, s.DSN(), "SELECT 1"))
}

func TestServer_StopWithoutSupervisor(t *testing.T) {
	t.Parallel()
	s := start(t, Options{Fast: true})
	pid := s.Pid()
	require.NoError(t, syscall.Kill(s.sup.cmd.Process.Pid, syscall.SIGKILL))
	require.NoError(t, s.Stop())
	require.False(t, processAlive(pid))
	require.NoDirExists(t, s.Dir())
}

func TestOptions_Validate(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]Options{
		"port":          {Port: 70000},
		"preferred":     {PreferPorts: []int{5432, -1}},
		"version":       {Version: "16.2"},
		"setting name":  {Settings: map[string]string{"work_mem = 1; x": "1"}},
		"setting value": {Settings: map[string]string{"work_mem": "1\nfsync = off"}},
	} {
		_, err := Start(t.Context(), opts)
		require.Error(t, err, name)
	}
}

func ownerOfFile(t *testing.T, info os.FileInfo) int {
	t.Helper()
	st, ok := info.Sys().(*syscall.Stat_t)
	require.True(t, ok)
	return int(st.Uid)
}

// tempDir is t.TempDir, open to the server's account whatever our umask.
func tempDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	return dir
}
