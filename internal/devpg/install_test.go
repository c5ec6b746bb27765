package devpg

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAptInstall_AnnouncesFirst(t *testing.T) {
	t.Parallel()
	var told bytes.Buffer
	log := slog.New(slog.NewTextHandler(&told, nil))
	var installed []string
	install := func(_ context.Context, packages ...string) error {
		require.Contains(t, told.String(), "package="+packages[0], "announced before it runs")
		installed = append(installed, packages...)
		return nil
	}
	require.NoError(t, aptInstall(t.Context(), "", log, install))
	require.NoError(t, aptInstall(t.Context(), "16", log, install))
	require.Equal(t, []string{"postgresql", "postgresql-16"}, installed)

	err := aptInstall(t.Context(), "", log, func(context.Context, ...string) error { return errors.New("no network") })
	require.ErrorContains(t, err, "no network")
}

// archiveOf packs a pretended server as the repository has it: a compressed tar in a zip.
func archiveOf(t *testing.T) []byte {
	t.Helper()
	tree := t.TempDir()
	files := map[string]string{
		"bin/postgres":         "echo 'postgres (PostgreSQL) 17.5'",
		"bin/initdb":           "echo 'initdb (PostgreSQL) 17.5'",
		"bin/pg_ctl":           "echo 'there is no configuration file'; exit 1",
		"share/postgresql.txt": "",
	}
	for name, script := range files {
		path := filepath.Join(tree, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	}
	tar, err := exec.CommandContext(t.Context(), "tar", "-C", tree, "-cJf", "-", "bin", "share").Output()
	if err != nil {
		t.Skip("needs tar and xz:", err)
	}
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	f, err := w.Create("postgres-linux.txz")
	require.NoError(t, err)
	_, err = f.Write(tar)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return archive.Bytes()
}

func TestDownloadBinaries(t *testing.T) {
	t.Parallel()
	acct, err := serverAccount()
	require.NoError(t, err)
	archive := archiveOf(t)
	var served atomic.Int32
	var down atomic.Bool
	repository := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() || !strings.HasSuffix(r.URL.Path, ".jar") {
			http.NotFound(w, r)
			return
		}
		served.Add(1)
		_, _ = w.Write(archive)
	}))
	t.Cleanup(repository.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections) // the library's
	var told bytes.Buffer
	request := downloadRequest{
		account: acct, version: "17", log: slog.New(slog.NewTextHandler(&told, nil)),
		cache: filepath.Join(tempDir(t), "cache"), repository: repository.URL,
	}

	down.Store(true)
	_, err = downloadBinaries(t.Context(), request)
	require.ErrorContains(t, err, "downloading Postgres 17")
	require.Contains(t, told.String(), "downloading")
	down.Store(false)

	for range 2 {
		bin, err := downloadBinaries(t.Context(), request)
		require.NoError(t, err)
		major, err := probeBinaries(t.Context(), bin, acct)
		require.NoError(t, err, "the server's account can run it, though the archive kept it to its owner")
		require.Equal(t, "17", major)
	}
	require.EqualValues(t, 1, served.Load(), "the second time it's in the cache")
	left, err := filepath.Glob(filepath.Join(request.cache, ".download-*"))
	require.NoError(t, err)
	require.Empty(t, left)

	request.version = "8"
	_, err = downloadBinaries(t.Context(), request)
	require.ErrorContains(t, err, "version 8 of Postgres cannot be downloaded")
}

func TestAccount_CanReach(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	inner := filepath.Join(dir, "closed", "inner")
	require.NoError(t, os.MkdirAll(inner, 0o755))
	stranger := account{name: "stranger", uid: 54321, gid: 54321, drop: true}
	require.NoError(t, stranger.canReach(inner))
	require.NoError(t, os.Chmod(filepath.Dir(inner), 0o700))
	require.ErrorContains(t, stranger.canReach(inner), filepath.Dir(inner))
	stranger.drop = false
	require.NoError(t, stranger.canReach(inner))
}

func TestServerEnv(t *testing.T) {
	t.Parallel()
	got := serverEnv([]string{"PATH=/bin", "PGPORT=1", "PGDATA=/x", "LANG=de_DE", "LC_NUMERIC=de_DE", "HOME=/h"})
	require.Equal(t, []string{"PATH=/bin", "HOME=/h", "LC_ALL=C"}, got)
}
