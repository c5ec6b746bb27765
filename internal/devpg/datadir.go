package devpg

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	configFile   = "sched-dev.conf" // beside postgresql.conf, which includes it
	superuser    = "postgres"
	loopback     = "127.0.0.1"
	lockPatience = 15 * time.Second // a dying server of ours needs up to this long to leave a kept directory
)

// ErrDirInUse is returned by Start when another server is running in Options.Dir.
var ErrDirInUse = errors.New("another server is running in this directory: stop it, or use another directory")

// lockDir takes the directory's lock, waiting for the last server's processes to end.
func lockDir(ctx context.Context, path string) (*os.File, error) {
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = f.Close()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("%s: %w", filepath.Dir(path), ErrDirInUse)
		}
	}
}

// prepareData makes the data directory unless there is one already, and returns the superuser's password.
func (l layout) prepareData(ctx context.Context, bin string, acct account, opts *Options, lock *os.File) (string, error) {
	if _, err := os.Stat(filepath.Join(l.data(), "PG_VERSION")); err == nil {
		if err := l.recover(); err != nil {
			return "", err
		}
		password, err := os.ReadFile(l.password())
		return strings.TrimSpace(string(password)), err
	}

	password := rand.Text()
	if err := os.WriteFile(l.password(), []byte(password+"\n"), 0o600); err != nil {
		return "", err
	}
	if err := acct.own(l.password()); err != nil {
		return "", err
	}
	// Renamed when complete, so that an interrupted initdb is never taken for a server's data.
	fresh := l.data() + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return "", err
	}
	args := []string{
		"-D", fresh, "-U", superuser, "--pwfile", l.password(), "--auth-local=trust", "--auth-host=scram-sha-256",
		"--encoding=UTF8", "--locale=C",
	}
	if l.temp || opts.Fast {
		args = append(args, "--no-sync")
	}
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), args...)
	acct.apply(cmd)
	cmd.Dir = l.base
	cmd.ExtraFiles = []*os.File{lock} // it may outlive us, and must then keep others out of the directory
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("initdb in %s: %w\n%s", l.base, errors.Join(err, ctx.Err()), lastLines(string(out), 10))
	}
	conf, err := os.OpenFile(filepath.Join(fresh, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return "", err
	}
	_, err = conf.WriteString("\ninclude_if_exists '" + configFile + "'\n")
	if err := errors.Join(err, conf.Close()); err != nil {
		return "", err
	}
	return password, os.Rename(fresh, l.data())
}

// recover clears what a server that was killed left in the directory, whose lock we hold. Postgres itself removes the
// pid file of a dead process, but gives up when the number has been taken by another process since.
func (l layout) recover() error {
	path := filepath.Join(l.data(), "postmaster.pid")
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(content), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err == nil && processAlive(pid) {
		// Where /proc can't tell, Postgres decides.
		if !hasProc() {
			return nil
		}
		if slices.Contains(workersIn(l.data()), pid) {
			return fmt.Errorf("%s, process %d: %w", l.base, pid, ErrDirInUse)
		}
	}
	return os.Remove(path)
}

func (l layout) writeConfig(acct account, config string) error {
	path := filepath.Join(l.data(), configFile)
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		return err
	}
	return acct.own(path)
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
