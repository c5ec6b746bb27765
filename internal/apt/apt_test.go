package apt

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// machine is one that has some packages, and on which two apt-get at once fail.
type machine struct {
	mu       sync.Mutex
	busy     bool
	packages []string
	ran      []string
}

func (m *machine) run(_ context.Context, command ...string) (string, error) {
	last := command[len(command)-1]
	m.mu.Lock()
	defer m.mu.Unlock()
	if command[0] == "dpkg-query" {
		if slices.Contains(m.packages, last) {
			return "installed", nil
		}
		return "deinstalled", nil
	}
	if m.busy {
		return "", errors.New("Could not get lock /var/lib/apt/lists/lock")
	}
	m.busy = true
	m.mu.Unlock()
	timer := time.NewTimer(10 * time.Millisecond)
	<-timer.C
	m.mu.Lock()
	m.busy = false
	m.ran = append(m.ran, strings.Join(command, " "))
	if slices.Contains(command, "install") {
		m.packages = append(m.packages, last)
	}
	return "", nil
}

func TestInstall_OneAtATime(t *testing.T) {
	t.Parallel()
	var m machine
	lock := filepath.Join(t.TempDir(), "lock")
	errs := make(chan error)
	const callers = 4
	for range callers {
		go func() { errs <- install(t.Context(), lock, m.run, []string{"pgbouncer"}) }()
	}
	for range callers {
		require.NoError(t, <-errs)
	}
	require.Equal(t, []string{
		"apt-get -o DPkg::Lock::Timeout=300 update -qq",
		"apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends pgbouncer",
	}, m.ran, "who waited finds it installed")
}

// The lock holds between processes: the Makefile takes it with the program flock.
func TestInstall_WaitsForOtherProcesses(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("flock"); err != nil {
		t.Skip("flock is missing")
	}
	lock := filepath.Join(t.TempDir(), "lock")
	holder := exec.CommandContext(t.Context(), "flock", lock, "sh", "-c", "echo locked; read end")
	in, err := holder.StdinPipe()
	require.NoError(t, err)
	out, err := holder.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, holder.Start())
	_, err = out.Read(make([]byte, len("locked\n")))
	require.NoError(t, err)

	var m machine
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, install(ctx, lock, m.run, []string{"pgbouncer"}), context.DeadlineExceeded)
	require.Empty(t, m.ran)
	require.NoError(t, in.Close())
	_ = holder.Wait() // read found no line
	require.NoError(t, install(t.Context(), lock, m.run, []string{"pgbouncer"}))
	require.Len(t, m.ran, 2)
}

func TestInstall_SaysWhatFailed(t *testing.T) {
	t.Parallel()
	failing := func(ctx context.Context, command ...string) (string, error) {
		return run(ctx, "sh", "-c", "printf '1\n2\n3\n4\n5\nno network\n'; exit 100")
	}
	err := install(t.Context(), filepath.Join(t.TempDir(), "lock"), failing, []string{"a", "b"})
	require.EqualError(t, err, "apt-get -o DPkg::Lock::Timeout=300 update -qq: exit status 100\n2\n3\n4\n5\nno network")
}
