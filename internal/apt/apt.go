// Package apt installs Debian packages for what can't do without them: the embedded Postgres and the tests of
// `make verify`.
//
// Invariant: one apt-get at a time among all processes of this project, tests and the Makefile included. Each apt-get takes
// a lock of its own for its lists that it doesn't wait for, so that two of them at once fail ("Could not get lock"). Another
// program's apt-get is waited for too, but only where apt itself can (its option DPkg::Lock::Timeout).
package apt

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

const (
	// lockFile is the Makefile's too. Only root writes there, and only root installs packages.
	lockFile = "/var/cache/sched-apt.lock"
	// patience is how long apt-get waits for others that hold dpkg's lock.
	patience = 5 * time.Minute
)

// Available says whether packages can be installed: by root, on Debian or what descends from it.
func Available() bool {
	if os.Geteuid() != 0 {
		return false
	}
	if _, err := os.Stat("/etc/debian_version"); err != nil {
		return false
	}
	_, err := exec.LookPath("apt-get")
	return err == nil
}

// Install installs packages, and waits for others that do. What somebody else has installed meanwhile isn't asked for
// again.
func Install(ctx context.Context, packages ...string) error {
	return install(ctx, lockFile, run, packages)
}

func install(ctx context.Context, lock string, run func(context.Context, ...string) (string, error), packages []string) error {
	unlock, err := acquire(ctx, lock)
	if err != nil {
		return fmt.Errorf("lock %s: %w", lock, err)
	}
	defer unlock()
	var missing []string
	for _, name := range packages {
		status, err := run(ctx, "dpkg-query", "--show", "--showformat=${db:Status-Status}", name)
		if err != nil || status != "installed" {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	wait := fmt.Sprintf("DPkg::Lock::Timeout=%d", int(patience.Seconds()))
	for _, command := range [][]string{
		{"apt-get", "-o", wait, "update", "-qq"},
		append([]string{"apt-get", "-o", wait, "install", "-y", "-qq", "--no-install-recommends"}, missing...),
	} {
		if _, err := run(ctx, command...); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(command, " "), err)
		}
	}
	return nil
}

// run runs a command and returns what it wrote; the error has the end of that.
func run(ctx context.Context, command ...string) (string, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	out, err := cmd.CombinedOutput()
	if err != nil {
		const lines = 5
		said := strings.Split(strings.TrimSpace(string(out)), "\n")
		return "", fmt.Errorf("%w\n%s", err, strings.Join(said[max(0, len(said)-lines):], "\n"))
	}
	return string(out), nil
}
