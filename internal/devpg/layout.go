package devpg

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// layout is where a server keeps its things.
type layout struct {
	base      string // data/, run/, server.log, password, lock
	socketDir string
	temp      bool
}

func (l layout) data() string     { return filepath.Join(l.base, "data") }
func (l layout) log() string      { return filepath.Join(l.base, "server.log") }
func (l layout) password() string { return filepath.Join(l.base, "password") }
func (l layout) lock() string     { return filepath.Join(l.base, "lock") }

// removable lists what goes when the server does.
func (l layout) removable() []string {
	var dirs []string
	if l.temp {
		dirs = append(dirs, l.base)
	}
	if filepath.Dir(l.socketDir) != l.base {
		dirs = append(dirs, l.socketDir)
	}
	return dirs
}

func (l layout) remove() error {
	var errs []error
	for _, dir := range l.removable() {
		errs = append(errs, os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}

// makeLayout makes the directories. What it made is removed again when it fails.
func makeLayout(opts *Options, acct account) (l layout, err error) {
	if opts.Dir == "" {
		l.temp = true
		l.base, err = makeTemp(acct, opts.Fast, opts.Keep)
	} else {
		l.base, err = makeKept(opts.Dir, acct)
	}
	if err != nil {
		return l, err
	}
	l.socketDir = filepath.Join(l.base, "run")
	if len(filepath.Join(l.socketDir, ".s.PGSQL.65535")) > maxSocketPath() {
		// /tmp rather than TMPDIR, which may be the reason why the path is too long.
		l.socketDir, err = os.MkdirTemp("/tmp", "sched-pg-")
	} else {
		err = os.MkdirAll(l.socketDir, 0o700)
	}
	if err == nil {
		err = acct.own(l.socketDir)
	}
	if err != nil {
		return l, errors.Join(fmt.Errorf("making the socket directory: %w", err), l.remove())
	}
	return l, nil
}

// maxSocketPath is the longest path of a Unix socket without its closing zero byte.
func maxSocketPath() int {
	if runtime.GOOS == "linux" {
		return 107
	}
	return 103
}

// makeTemp makes a temporary directory. A fast server's goes into memory where there is plenty: a test database is a copy
// of 300 small files, which takes a tenth of the time there. Whoever sets TMPDIR decides.
func makeTemp(acct account, fast, keep bool) (string, error) {
	parent := os.TempDir()
	switch {
	case fast && os.Getenv("TMPDIR") == "" && roomInMemory():
		parent = memoryDir
	case acct.canReach(parent) != nil:
		parent = "/tmp" // TMPDIR may be root's alone; /tmp is everybody's
	}
	sweep(parent, acct)
	dir, err := os.MkdirTemp(parent, "sched-pg-")
	if err != nil {
		return "", fmt.Errorf("making a temporary directory: %w", err)
	}
	if !keep {
		err = os.WriteFile(filepath.Join(dir, temporaryMark), nil, 0o600)
	}
	if err := errors.Join(err, acct.own(dir)); err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return dir, nil
}

func makeKept(dir string, acct account) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("making %s: %w", dir, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	// The directory changes owner and mode: never do that to one that holds somebody's files.
	if _, err := os.Stat(filepath.Join(dir, "lock")); err != nil && len(entries) > 0 {
		return "", fmt.Errorf("%s is not empty and holds no server started by this program: use an empty or a new directory", dir)
	}
	mark, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	if err := errors.Join(mark.Close(), acct.own(dir)); err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return "", err
	}
	return dir, acct.canReach(dir)
}
