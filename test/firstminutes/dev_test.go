package firstminutes_test

import (
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/fleettest"
)

// politeApp says goodbye, and has a child that would stay.
const politeApp = `trap 'echo bye >bye; exit 0' TERM; sleep 600 & echo $$ >up; while :; do sleep 0.05; done`

// stubbornApp ends by SIGKILL alone, with its child.
const stubbornApp = `trap '' TERM; sh -c 'while :; do sleep 0.05; done' & echo $$ >up; while :; do sleep 0.05; done`

// ampleGrace is for an end that has to be in order.
const ampleGrace = "--shutdown-grace=30s"

// dev starts `sched dev` with an app in the shell's language, and waits until both are up.
func dev(t *testing.T, script string, flags ...string) *program {
	t.Helper()
	return devIn(t, nil, script, flags...)
}

// devIn is dev with more variables.
func devIn(t *testing.T, env []string, script string, flags ...string) *program {
	t.Helper()
	args := append([]string{filepath.Join(binDir, "sched"), "dev", "--admin-addr=127.0.0.1:0", "--app-url=http://" + fleettest.FreeAddress(t)}, flags...)
	p := launch(t, func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, env...) }, append(args, "--", "/bin/sh", "-c", script)...)
	p.await(t, "Ctrl-C stops all of it.")
	awaitFile(t, filepath.Join(p.cmd.Dir, "up"))
	return p
}

func dsnOf(t *testing.T, p *program) string {
	t.Helper()
	_, rest, found := strings.Cut(p.out.String(), "export DSN='")
	require.True(t, found)
	dsn, _, _ := strings.Cut(rest, "'")
	return dsn
}

func TestCtrlCStopsAll(t *testing.T) {
	t.Parallel()
	data := dataDir(t)
	p := dev(t, politeApp, "--dir", data, ampleGrace)
	p.requireTree(t, "sched", "postgres", "sh", "sleep")
	p.press(syscall.SIGINT)
	require.Zero(t, p.exit(t))
	require.Equal(t, "bye", awaitFile(t, filepath.Join(p.cmd.Dir, "bye")), "the app was asked")
	p.requireNothingLeft(t)
	require.NoFileExists(t, filepath.Join(data, "data", "postmaster.pid"), "Postgres has shut down in order")
}

func TestSecondCtrlCStopsAllAtOnce(t *testing.T) {
	t.Parallel()
	p := dev(t, stubbornApp, "--ephemeral", "--shutdown-grace=1h")
	p.press(syscall.SIGINT)
	p.await(t, "stopping the app")
	started := time.Now()
	require.Eventually(t, func() bool {
		p.press(syscall.SIGINT) // until one is told from the first
		select {
		case <-p.exited:
			return true
		default:
			return false
		}
	}, soon, 100*time.Millisecond)
	require.Equal(t, 130, p.exit(t))
	require.Less(t, time.Since(started), soon)
	p.requireNothingLeft(t)
}

func TestKilledDevLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{"polite": politeApp, "stubborn": stubbornApp} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			temp := t.TempDir()
			require.NoError(t, os.Chmod(temp, 0o777)) // as /tmp: root's Postgres is another account
			require.NoError(t, openToAll(filepath.Dir(temp)))
			p := devIn(t, []string{"TMPDIR=" + temp}, script, "--ephemeral")
			p.requireTree(t, "sched", "postgres", "sh")
			p.signal(syscall.SIGKILL)
			require.Equal(t, 137, p.exit(t))
			p.requireNothingLeft(t)
			require.Eventually(t, func() bool {
				left, err := os.ReadDir(temp)
				return err == nil && len(left) == 0
			}, soon, 20*time.Millisecond, "its temporary directory goes too")
		})
	}
}

func TestDevExitsAsTheAppDid(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		script string
		code   int
	}{"success": {"echo up >up", 0}, "failure": {"echo up >up; exit 4", 4}, "signal": {"echo up >up; kill -SEGV $$", 139}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := dev(t, tt.script, "--ephemeral")
			require.Equal(t, tt.code, p.exit(t))
			require.Contains(t, p.out.String(), "by_itself=true")
			p.requireNothingLeft(t)
		})
	}
}

func TestClosedTerminalStopsAll(t *testing.T) {
	t.Parallel()
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("SIGHUP is ignored here, as under nohup, and stays so")
	}
	p := dev(t, politeApp, "--ephemeral", ampleGrace)
	p.press(syscall.SIGHUP)
	require.Zero(t, p.exit(t))
	awaitFile(t, filepath.Join(p.cmd.Dir, "bye"))
	p.requireNothingLeft(t)
}

func TestMissingAppIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	p := launch(t, nil, filepath.Join(binDir, "sched"), "dev", "--ephemeral", "--", "no-such-program")
	require.Equal(t, 127, p.exit(t))
	require.Equal(t, "sched: the command \"no-such-program\" is not in PATH: install it, or give its path\n", p.out.String())
}

// Root's Postgres runs as another account, an ordinary user's as the user.
func TestDevAsAnOrdinaryUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("the other tests run as an ordinary user already")
	}
	nobody, err := user.Lookup("nobody")
	require.NoError(t, err)
	uid, err := strconv.Atoi(nobody.Uid)
	require.NoError(t, err)
	gid, err := strconv.Atoi(nobody.Gid)
	require.NoError(t, err)
	home := t.TempDir()
	require.NoError(t, openToAll(filepath.Dir(home)))
	require.NoError(t, os.Chown(home, uid, gid))

	p := launch(t, func(cmd *exec.Cmd) {
		cmd.Dir = home
		cmd.Env = append(cmd.Env, "HOME="+home, "XDG_STATE_HOME=")
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}, filepath.Join(binDir, "sched"), "dev", "--admin-addr=127.0.0.1:0", "--app-url=http://"+fleettest.FreeAddress(t), ampleGrace)
	p.await(t, "Ctrl-C stops all of it.")
	require.Contains(t, p.out.String(), "in "+filepath.Join(home, ".local", "state", "sched", "dev"))
	conn, err := pgx.Connect(t.Context(), dsnOf(t, p))
	require.NoError(t, err)
	var id int64
	require.NoError(t, conn.QueryRow(t.Context(), "select sched.enqueue('hello')").Scan(&id))
	require.NoError(t, conn.Close(t.Context()))
	p.press(syscall.SIGINT)
	require.Zero(t, p.exit(t))
	p.requireNothingLeft(t)
}
