package devpg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

const cacheName = "sched-postgres"

// releases are the versions that can be downloaded; the newest is the default.
func releases() []embeddedpostgres.PostgresVersion {
	return []embeddedpostgres.PostgresVersion{
		embeddedpostgres.V18, embeddedpostgres.V17, embeddedpostgres.V16, embeddedpostgres.V15, embeddedpostgres.V14,
	}
}

type downloadRequest struct {
	account    account
	version    string // major, "" for the newest
	log        *slog.Logger
	cache      string // "" for the user's cache directory
	repository string // "" for the library's
}

// downloadBinaries returns the bin directory of a server in the cache, which it fills when needed.
func downloadBinaries(ctx context.Context, req downloadRequest) (string, error) {
	release, err := releaseOf(req.version)
	if err != nil {
		return "", err
	}
	cache, err := req.cacheDir()
	if err != nil {
		return "", fmt.Errorf("no directory for a download: %w", err)
	}
	home := filepath.Join(cache, string(release))
	bin := filepath.Join(home, "bin")
	lock, err := lockDir(ctx, filepath.Join(cache, "lock"))
	if err != nil {
		return "", fmt.Errorf("another process is downloading Postgres: %w", err)
	}
	if _, err := os.Stat(home); err == nil {
		return bin, lock.Close()
	}
	req.log.Warn("no Postgres server on this machine: downloading one", "version", string(release), "into", home)

	// The library takes no context and its requests have no end: whoever stops waiting leaves the goroutine to clean up
	// behind itself, or to fill the cache for the next start.
	done := make(chan error, 1)
	go func() {
		done <- errors.Join(fetch(cache, home, release, req.repository), lock.Close())
	}()
	select {
	case err := <-done:
		if err != nil {
			return "", fmt.Errorf("downloading Postgres %s: %w", release, err)
		}
		return bin, nil
	case <-ctx.Done():
		return "", fmt.Errorf("downloading Postgres %s: %w", release, ctx.Err())
	}
}

func releaseOf(version string) (embeddedpostgres.PostgresVersion, error) {
	if version == "" {
		return releases()[0], nil
	}
	for _, release := range releases() {
		if strings.HasPrefix(string(release), version+".") {
			return release, nil
		}
	}
	return "", fmt.Errorf("version %s of Postgres cannot be downloaded, only %v", version, releases())
}

// cacheDir is the user's cache directory; for root one that the server's account can enter, too.
func (r *downloadRequest) cacheDir() (string, error) {
	dir := r.cache
	if dir == "" {
		parent, err := os.UserCacheDir()
		if err != nil || r.account.drop {
			parent = "/var/cache"
		}
		dir = filepath.Join(parent, cacheName)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return dir, r.account.canReach(dir)
}

// fetch downloads and unpacks a release into home. The library has no call for that alone, only one that starts a server
// as well: it's given a data directory that no server accepts, so that its start ends right after the unpacking.
func fetch(cache, home string, release embeddedpostgres.PostgresVersion, repository string) (err error) {
	work, err := os.MkdirTemp(cache, ".download-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	data := filepath.Join(work, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	major, _, _ := strings.Cut(string(release), ".")
	if err := os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte(major+"\n"), 0o600); err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	unpacked := filepath.Join(work, "unpacked")
	config := embeddedpostgres.DefaultConfig().Version(release).Port(uint32(port)).Logger(io.Discard).
		CachePath(filepath.Join(work, "archive")).RuntimePath(filepath.Join(work, "runtime")).
		BinariesPath(unpacked).DataPath(data)
	if repository != "" {
		config = config.BinaryRepositoryURL(repository)
	}
	db := embeddedpostgres.NewDatabase(config)
	err = db.Start()
	if err == nil {
		return errors.Join(errors.New("the downloaded server started on an empty data directory"), db.Stop())
	}
	if !strings.HasPrefix(err.Error(), "could not start postgres") {
		return err // it did not get as far as the start
	}
	if err := openToAll(unpacked); err != nil {
		return err
	}
	return os.Rename(unpacked, home)
}

// openToAll lets every account read the tree: a strict umask, or the archive, may have kept it to us.
func openToAll(root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm() | 0o444
		if entry.IsDir() || mode&0o100 != 0 {
			mode |= 0o111
		}
		return os.Chmod(path, mode)
	})
}
