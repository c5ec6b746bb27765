package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// launchChild starts this test binary as a child and waits until it is ready.
func launchChild(t *testing.T, log, mood string) *process {
	t.Helper()
	p, err := launch(t.Context(), "child", log, []string{childEnv + "=" + mood}, os.Args[0])
	require.NoError(t, err)
	t.Cleanup(p.kill)
	require.Eventually(t, func() bool { return strings.Contains(logOf(t, log), mood) }, time.Minute, 5*time.Millisecond)
	return p
}

func logOf(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

func TestAWillingProcessEndsByItself(t *testing.T) {
	t.Parallel()
	p := launchChild(t, filepath.Join(t.TempDir(), "log"), "willing")
	_, ended := p.ended()
	require.False(t, ended)

	p.stop(time.Minute)
	how, ended := p.ended()
	require.True(t, ended)
	require.Equal(t, "exit status 0", how)
	require.False(t, p.killed)
	p.stop(time.Second) // once more does no harm
}

func TestAStubbornProcessIsKilled(t *testing.T) {
	t.Parallel()
	p := launchChild(t, filepath.Join(t.TempDir(), "log"), "stubborn")

	p.stop(10 * time.Millisecond)
	how, ended := p.ended()
	require.True(t, ended)
	require.Equal(t, "signal: killed", how)
	require.True(t, p.killed)
}

func TestARestartAppendsToTheLog(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	launchChild(t, log, "stubborn").kill()
	launchChild(t, log, "willing").kill()
	require.Contains(t, logOf(t, log), "stubborn child is ready")
}

func TestAChildDoesNotInheritAnotherSidecarsConfiguration(t *testing.T) {
	t.Setenv("SCHED_X", "of the person at the terminal")
	log := filepath.Join(t.TempDir(), "log")
	launchChild(t, log, "willing")
	require.Contains(t, logOf(t, log), "SCHED_X=\n")
}

func TestTheDemoNoticesAChildThatEndsByItself(t *testing.T) {
	t.Parallel()
	st := newStage(options{}, &screen{})
	p := launchChild(t, filepath.Join(t.TempDir(), "log"), "hasty")
	st.pairs = []*pair{{name: "A", app: p}}
	<-p.done

	err := st.tick(t.Context())
	require.ErrorContains(t, err, "child (pid ")
	require.ErrorContains(t, err, "ended by itself: exit status 3")

	p.killed = true
	require.NoError(t, st.tick(t.Context()))
}

func TestTheDemoClearsItsProcesses(t *testing.T) {
	t.Parallel()
	st := newStage(options{}, &screen{})
	st.dir = t.TempDir()
	app := launchChild(t, st.logPath("app-A"), "willing")
	sidecar := launchChild(t, st.logPath("sidecar-A"), "willing")
	st.pairs = []*pair{{name: "A", app: app, sidecar: sidecar}, {name: "B"}}

	st.clear()
	for _, p := range []*process{app, sidecar} {
		how, ended := p.ended()
		require.True(t, ended)
		require.Equal(t, "exit status 0", how)
	}
	require.NoDirExists(t, st.dir)
}

func TestFreeAddrsAreDifferent(t *testing.T) {
	t.Parallel()
	addrs, err := freeAddrs(t.Context(), 4)
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, addr := range addrs {
		require.False(t, seen[addr], addr)
		seen[addr] = true
	}
	require.Len(t, seen, 4)
}

func TestTail(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(path, []byte("a\nb\nc\n"), 0o600))
	require.Equal(t, []string{"b", "c"}, tail(path, 2))
	require.Equal(t, []string{"a", "b", "c"}, tail(path, 9))
	require.Contains(t, tail(path+"?", 2)[0], "no such file")
}
