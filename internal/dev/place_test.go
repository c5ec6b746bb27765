package dev

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPlace(t *testing.T) {
	t.Parallel()
	base, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	shop, other := filepath.Join(base, "a", "My shop!"), filepath.Join(base, "b", "My shop!")
	below := filepath.Join(shop, "src", "deep")
	for _, dir := range []string{below, filepath.Join(shop, ".git"), other} {
		require.NoError(t, os.MkdirAll(dir, 0o700))
	}
	env := map[string]string{"HOME": "/home/ann"}
	getenv := func(name string) string { return env[name] }
	place := func(dir string, root bool) string {
		got, err := Place(dir, getenv, root)
		require.NoError(t, err)
		return got
	}

	at := place(shop, false)
	require.Regexp(t, `^/home/ann/\.local/state/sched/dev/My-shop-[0-9a-f]{8}$`, at)
	require.Equal(t, at, place(below, false), "anywhere in the project")
	require.NotEqual(t, at, place(other, false), "another project of that name")
	require.Regexp(t, `^/home/ann/\.local/state/sched/dev/b-[0-9a-f]{8}$`, place(filepath.Dir(other), false), "no project: the directory itself")
	require.Regexp(t, `^/var/lib/sched/dev/My-shop-[0-9a-f]{8}$`, place(shop, true), "root's server can't enter root's home")

	env["XDG_STATE_HOME"] = "/state"
	require.Regexp(t, `^/state/sched/dev/My-shop-[0-9a-f]{8}$`, place(shop, false))
	env = nil
	_, err = Place(shop, getenv, false)
	require.ErrorContains(t, err, "HOME is not set: say with --dir")
	_, err = Place(filepath.Join(base, "none"), getenv, false)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestNames(t *testing.T) {
	t.Parallel()
	for project, want := range map[string]string{
		"/src/shop": "shop", "/": "project", "/src/..hidden": "hidden", "/src/Ünï": "n",
		"/src/a-name-that-goes-on-and-on-and-on-for-ever-and-ever": "a-name-that-goes-on-and-on-and-on-for-ev",
	} {
		require.Equal(t, want, nameOf(project))
	}
}

func TestRunningDSN(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := RunningDSN(t.Context(), dir)
	require.ErrorIs(t, err, ErrNotRunning)
	require.ErrorContains(t, err, "it is still starting")

	require.NoError(t, recordDSN(dir, "postgres://postgres:secret@127.0.0.1:1/postgres?sslmode=disable"))
	require.Equal(t, 1, portOfDSN(recordedDSN(dir)))
	_, err = RunningDSN(t.Context(), dir)
	require.ErrorIs(t, err, ErrNotRunning)
	require.ErrorContains(t, err, "start it first")
	require.NotContains(t, err.Error(), "secret")
	require.Zero(t, portOfDSN(""))
}
