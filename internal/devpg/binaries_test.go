package devpg

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// machine is a finder on a pretended machine: directories with a server of a version, and nothing else.
type machine struct {
	*finder
	root      string
	env       map[string]string
	path      string // what PATH says
	config    string // what pg_config says
	downloads int
	installs  int
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{root: t.TempDir(), env: make(map[string]string)}
	m.finder = &finder{
		log:    slog.New(slog.DiscardHandler),
		getenv: func(name string) string { return m.env[name] },
		lookPath: func(string) (string, error) {
			if m.path == "" {
				return "", os.ErrNotExist
			}
			return m.path, nil
		},
		pgConfig: func(context.Context) (string, error) {
			if m.config == "" {
				return "", os.ErrNotExist
			}
			return m.config, nil
		},
		patterns: []string{filepath.Join(m.root, "lib", "*", "bin")},
		probe: func(_ context.Context, dir string) (string, error) {
			version, err := os.ReadFile(filepath.Join(dir, "postgres"))
			return string(version), err
		},
		download: func(context.Context) (string, error) {
			m.downloads++
			return "", errors.New("no network")
		},
	}
	return m
}

// with adds a server to the machine.
func (m *machine) with(t *testing.T, dir, version string) string {
	t.Helper()
	dir = filepath.Join(m.root, dir)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "postgres"), []byte(version), 0o644))
	return dir
}

func TestFinder_Order(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	expect := func(want string) {
		t.Helper()
		got, err := m.find(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, got)
	}

	m.with(t, "lib/9.6/bin", "9")
	expect(m.with(t, "lib/15/bin", "15"))
	expect(m.with(t, "lib/16/bin", "16")) // the newest by number: 9 is the largest string
	m.config = m.with(t, "config", "14")
	expect(m.config)
	target := m.with(t, "opt", "17")
	m.path = filepath.Join(m.root, "postgres")
	require.NoError(t, os.Symlink(filepath.Join(target, "postgres"), m.path))
	expect(target) // a link in PATH leads to the directory with all programs
	m.env["SCHED_PG_BIN"] = m.with(t, "env", "13")
	expect(m.env["SCHED_PG_BIN"])
	m.binDir = m.with(t, "option", "12")
	expect(m.binDir)
	require.Zero(t, m.downloads)
}

func TestFinder_SkipsWhatDoesNotWorkOrFit(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.path = filepath.Join(m.root, "nothing", "postgres")
	m.config = m.with(t, "config", "15")
	want := m.with(t, "lib/16/bin", "16")
	m.with(t, "lib/17/bin", "17")
	m.version = "16"
	got, err := m.find(t.Context())
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestFinder_ChosenDirectoryMustBeRight(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.with(t, "lib/16/bin", "16")
	m.env["SCHED_PG_BIN"] = filepath.Join(m.root, "typo")
	_, err := m.find(t.Context())
	require.ErrorContains(t, err, "SCHED_PG_BIN")
	require.ErrorContains(t, err, "typo")

	m.env["SCHED_PG_BIN"] = m.with(t, "env", "15")
	m.version = "16"
	_, err = m.find(t.Context())
	require.ErrorContains(t, err, "has Postgres 15, but 16 is wanted")
	require.Zero(t, m.downloads)
}

func TestFinder_NothingFound(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.with(t, "lib/15/bin", "15")
	m.version = "16"
	m.noInstall = true
	_, err := m.find(t.Context())
	require.ErrorIs(t, err, ErrNoBinaries)
	for _, part := range []string{"install PostgreSQL 16", "apt-get install postgresql", "SCHED_PG_BIN", "has Postgres 15"} {
		require.ErrorContains(t, err, part)
	}
	require.Zero(t, m.downloads)

	m.noInstall = false
	_, err = m.find(t.Context())
	require.ErrorIs(t, err, ErrNoBinaries)
	require.ErrorContains(t, err, "no network")
	require.Equal(t, 1, m.downloads)
}

func TestFinder_DownloadsThenInstalls(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.install = func(context.Context) error {
		m.installs++
		m.with(t, "lib/15/bin", "15")
		return nil
	}
	got, err := m.find(t.Context())
	require.NoError(t, err)
	require.Equal(t, filepath.Join(m.root, "lib/15/bin"), got)
	require.Equal(t, []int{1, 1}, []int{m.downloads, m.installs})

	other := newMachine(t)
	cached := other.with(t, "cache", "18")
	other.download = func(context.Context) (string, error) { return cached, nil }
	other.install = func(context.Context) error { return errors.New("not needed") }
	got, err = other.find(t.Context())
	require.NoError(t, err)
	require.Equal(t, cached, got)
}

// Who presses Ctrl-C wants no server any more, be there one or not.
func TestFinder_StoppedInstallsNothing(t *testing.T) {
	t.Parallel()
	for _, stopAt := range []string{"the probe", "the download"} {
		t.Run(stopAt, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			m.install = func(context.Context) error { m.installs++; return nil }
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			failed := errors.New("signal: killed")
			if stopAt == "the probe" {
				m.with(t, "lib/17/bin", "17")
				m.probe = func(context.Context, string) (string, error) { stop(); return "", failed }
			} else {
				m.download = func(context.Context) (string, error) { stop(); return "", failed }
			}

			_, err := m.find(ctx)

			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, ErrNoBinaries)
			require.Zero(t, m.downloads+m.installs)
		})
	}
}

func TestProbeBinaries(t *testing.T) {
	t.Parallel()
	acct, err := serverAccount()
	require.NoError(t, err)
	dir := tempDir(t)
	_, err = probeBinaries(t.Context(), dir, acct)
	require.ErrorIs(t, err, os.ErrNotExist)

	program := func(name, script string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	program("initdb", "echo 'initdb (PostgreSQL) 16.3 (Debian 16.3-1)'")
	program("postgres", "echo 'postgres (PostgreSQL) 16.3 (Debian 16.3-1)'")
	major, err := probeBinaries(t.Context(), dir, acct)
	require.NoError(t, err)
	require.Equal(t, "16", major)

	program("postgres", "echo broken library >&2; exit 127")
	_, err = probeBinaries(t.Context(), dir, acct)
	require.ErrorContains(t, err, "broken library")
	program("postgres", "echo hello")
	_, err = probeBinaries(t.Context(), dir, acct)
	require.ErrorContains(t, err, `"hello"`)
}
