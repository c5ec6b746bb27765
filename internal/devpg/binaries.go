package devpg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sched-sidecar/sched/internal/apt"
)

// ErrNoBinaries is returned by Start when the machine has no Postgres server and none could be fetched.
var ErrNoBinaries = errors.New("no Postgres server binaries found")

// finder looks for a directory with the programs postgres and initdb. Its functions are those of the operating system,
// except in tests.
type finder struct {
	binDir    string // the caller's choice
	version   string // wanted major version, "" for any
	noInstall bool
	log       *slog.Logger

	getenv   func(string) string
	lookPath func(string) (string, error)
	pgConfig func(context.Context) (string, error)
	patterns []string                                      // where systems install servers, versions as "*"
	probe    func(context.Context, string) (string, error) // major version of the server in a directory
	download func(context.Context) (string, error)
	install  func(context.Context) error // nil where there's no way to
}

// systemDirs are the directories of Debian, Red Hat's PGDG packages, Homebrew, Alpine and Postgres.app.
func systemDirs() []string {
	return []string{
		"/usr/lib/postgresql/*/bin",
		"/usr/pgsql-*/bin",
		"/usr/libexec/postgresql*",
		"/opt/homebrew/opt/postgresql@*/bin",
		"/usr/local/opt/postgresql@*/bin",
		"/Applications/Postgres.app/Contents/Versions/*/bin",
	}
}

func newFinder(opts *Options, acct account, log *slog.Logger) *finder {
	f := &finder{
		binDir:    opts.BinDir,
		version:   opts.Version,
		noInstall: opts.NoInstall,
		log:       log,
		getenv:    os.Getenv,
		lookPath:  exec.LookPath,
		pgConfig:  pgConfigBinDir,
		patterns:  systemDirs(),
		probe:     func(ctx context.Context, dir string) (string, error) { return probeBinaries(ctx, dir, acct) },
	}
	f.download = func(ctx context.Context) (string, error) {
		return downloadBinaries(ctx, downloadRequest{account: acct, version: opts.Version, log: log})
	}
	if apt.Available() {
		f.install = func(ctx context.Context) error { return aptInstall(ctx, opts.Version, log, apt.Install) }
	}
	return f
}

func (f *finder) find(ctx context.Context) (string, error) {
	if dir := f.binDir; dir != "" {
		return f.explicit(ctx, dir, "the chosen directory of binaries")
	}
	if dir := f.getenv("SCHED_PG_BIN"); dir != "" {
		return f.explicit(ctx, dir, "SCHED_PG_BIN")
	}
	dir, localErr := f.findLocal(ctx)
	if localErr == nil {
		return dir, nil
	}
	if ctx.Err() != nil { // that nothing answered says nothing
		return "", stoppedLooking(ctx)
	}
	if f.noInstall {
		return "", f.nothing(localErr)
	}
	dir, downloadErr := f.download(ctx)
	if downloadErr == nil {
		return f.explicit(ctx, dir, "the downloaded server")
	}
	if ctx.Err() != nil {
		return "", stoppedLooking(ctx)
	}
	if f.install == nil {
		return "", f.nothing(localErr, downloadErr)
	}
	if err := f.install(ctx); err != nil {
		return "", f.nothing(localErr, downloadErr, err)
	}
	if dir, localErr = f.findLocal(ctx); localErr != nil {
		return "", f.nothing(localErr)
	}
	return dir, nil
}

func stoppedLooking(ctx context.Context) error {
	return fmt.Errorf("looking for a Postgres server: %w", ctx.Err())
}

// explicit takes a directory that somebody named: if it's wrong, they want to know, not get another one.
func (f *finder) explicit(ctx context.Context, dir, what string) (string, error) {
	major, err := f.probe(ctx, dir)
	if err != nil {
		return "", fmt.Errorf("%s, %s, is not usable: %w", what, dir, err)
	}
	if f.version != "" && major != f.version {
		return "", fmt.Errorf("%s, %s, has Postgres %s, but %s is wanted", what, dir, major, f.version)
	}
	return dir, nil
}

// findLocal tries what the machine has, in order: PATH, pg_config, the systems' directories with the newest first.
func (f *finder) findLocal(ctx context.Context) (string, error) {
	misses := []error{errors.New("PATH, pg_config and the usual directories of this machine")}
	seen := make(map[string]bool)
	for _, dir := range f.candidates(ctx) {
		if seen[dir] {
			continue
		}
		seen[dir] = true
		major, err := f.probe(ctx, dir)
		switch {
		case err != nil:
			misses = append(misses, fmt.Errorf("%s: %w", dir, err))
		case f.version != "" && major != f.version:
			misses = append(misses, fmt.Errorf("%s: has Postgres %s", dir, major))
		default:
			return dir, nil
		}
	}
	return "", errors.Join(misses...)
}

func (f *finder) candidates(ctx context.Context) []string {
	var dirs []string
	if path, err := f.lookPath("postgres"); err == nil {
		// A link leads to the directory with all the programs, pg_dump and psql too; a wrapper script is taken as it is.
		if target, err := filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(target))
		}
		dirs = append(dirs, filepath.Dir(path))
	}
	if dir, err := f.pgConfig(ctx); err == nil && dir != "" {
		dirs = append(dirs, dir)
	}
	var installed []string
	for _, pattern := range f.patterns {
		matches, err := filepath.Glob(pattern)
		if err == nil {
			installed = append(installed, matches...)
		}
	}
	slices.SortStableFunc(installed, func(a, b string) int { return versionInPath(b) - versionInPath(a) })
	return append(dirs, installed...)
}

var numberInPath = regexp.MustCompile(`[0-9]+`)

// versionInPath reads 16 from /usr/lib/postgresql/16/bin, 9 from a 9.6 and 0 from a path without a number. The version is
// in the last element that has a number.
func versionInPath(path string) int {
	for ; len(path) > 1; path = filepath.Dir(path) {
		if n, err := strconv.Atoi(numberInPath.FindString(filepath.Base(path))); err == nil {
			return n
		}
	}
	return 0
}

func (f *finder) nothing(why ...error) error {
	wanted := "PostgreSQL"
	if f.version != "" {
		wanted += " " + f.version
	}
	details := ""
	if err := errors.Join(why...); err != nil {
		details = "\ntried:\n" + err.Error()
	}
	return fmt.Errorf("%w: install %s (Debian and Ubuntu: apt-get install postgresql; Fedora: dnf install postgresql-server; "+
		"macOS: brew install postgresql@17), or set SCHED_PG_BIN to the directory that holds postgres and initdb%s",
		ErrNoBinaries, wanted, details)
}

func pgConfigBinDir(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output()
	return strings.TrimSpace(string(out)), err
}

var versionOutput = regexp.MustCompile(`\(PostgreSQL\) ([0-9]+)`)

// probeBinaries runs both programs as the server's account, so a directory that it may not use is found out here.
func probeBinaries(ctx context.Context, dir string, acct account) (string, error) {
	var major string
	for _, program := range []string{"initdb", "postgres"} {
		path := filepath.Join(dir, program)
		if _, err := os.Stat(path); err != nil {
			return "", err
		}
		cmd := exec.CommandContext(ctx, path, "--version")
		acct.apply(cmd)
		cmd.Dir = "/"
		out, err := cmd.CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("running %s --version as %s: %w %s", program, acct.name, err, lastLines(string(out), 3))
		}
		match := versionOutput.FindSubmatch(out)
		if match == nil {
			return "", fmt.Errorf("%s --version says %q, not the version of a PostgreSQL server", program, lastLines(string(out), 1))
		}
		major = string(match[1])
	}
	return major, nil
}
