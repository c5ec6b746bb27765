package bench

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNodeDatabase(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, dsn, host, mode string }{
		{"a URL", "postgres://u:p%20w@db:5433/d?sslmode=disable", "db", "disable"},
		{"a list of settings", "host=/run/pg port=5433 user=u password='p w' dbname=d sslmode=disable", "/run/pg", "disable"},
		{"TLS where there is some", "postgres://u:p%20w@db:5433/d?sslmode=prefer", "db", "disable"},
		{"TLS", "postgres://u:p%20w@db:5433/d?sslmode=require", "db", "no-verify"},
		{"TLS that is checked", "postgres://u:p%20w@db:5433/d?sslmode=verify-full", "db", "verify-full"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			env, err := nodeDatabase(tt.dsn)
			require.NoError(t, err)
			require.Equal(t, []string{"PGHOST=" + tt.host, "PGPORT=5433", "PGDATABASE=d", "PGUSER=u", "PGPASSWORD=p w", "PGSSLMODE=" + tt.mode}, env)
		})
	}
}

func TestPeerPackagesAreLocked(t *testing.T) {
	t.Parallel()
	files, _, err := readPeerFiles()
	require.NoError(t, err)
	require.NotContains(t, string(files["package-lock.json"]), `"resolved"`, "whoever installs has a registry of their own")
	var manifest struct{ Dependencies map[string]string }
	require.NoError(t, json.Unmarshal(files["package.json"], &manifest))
	var lock struct {
		Packages map[string]struct{ Version, License, Integrity string }
	}
	require.NoError(t, json.Unmarshal(files["package-lock.json"], &lock))
	for name, version := range manifest.Dependencies {
		require.Equal(t, version, lock.Packages["node_modules/"+name].Version, name)
		require.Equal(t, "MIT", lock.Packages["node_modules/"+name].License, name)
		require.Contains(t, files, name+".mjs")
	}
	for name, p := range lock.Packages {
		require.Equal(t, name != "", p.Integrity != "", name)
	}
}

func TestPeersWithoutNode(t *testing.T) {
	path := t.TempDir()
	t.Setenv("PATH", path)
	for _, tt := range []struct{ program, script, want string }{
		{"", "", "there is no node on this machine: the peers are programs for Node 20 or later, with npm (Debian 13: apt-get install nodejs npm; elsewhere: https://nodejs.org)"},
		{"node", "echo v18.3.0", "there is no npm on this machine: "},
		{"npm", "exit 1", "node is version 18.3.0: the peers are programs for Node 20 or later"},
	} {
		if tt.program != "" {
			require.NoError(t, os.WriteFile(filepath.Join(path, tt.program), []byte("#!/bin/sh\n"+tt.script+"\n"), 0o700))
		}
		_, err := installPeers(t.Context(), t.Logf)
		require.ErrorContains(t, err, tt.want)
	}
}

func TestPeersAreLeftOutOfAllFigures(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var out, notes strings.Builder
	r := &Runner{config: Config{Peers: PeersConfig{Optional: true}}, report: NewReport(&out, &notes, false)}
	require.NoError(t, r.peers(t.Context()))
	require.Contains(t, notes.String(), "the figures peers.* are left out: there is no node on this machine")
	r.config.Peers.Optional = false
	require.ErrorContains(t, r.peers(t.Context()), "there is no node on this machine")
}

// An installation that fails leaves nothing that a later run would take for one.
func TestPeersInstallationFails(t *testing.T) {
	t.Parallel()
	cache, npm := t.TempDir(), filepath.Join(t.TempDir(), "npm")
	require.NoError(t, os.WriteFile(npm, []byte("#!/bin/sh\necho no such host\nexit 1\n"), 0o700))
	err := installInto(t.Context(), npm, filepath.Join(cache, "bench", "peers"), map[string][]byte{"package.json": nil})
	require.ErrorContains(t, err, "npm ci for graphile-worker and pg-boss: exit status 1")
	require.ErrorContains(t, err, "no such host")
	left, err := os.ReadDir(filepath.Join(cache, "bench"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestAskClaims(t *testing.T) {
	t.Parallel()
	answering := func(answer string) *child {
		mux := http.NewServeMux()
		mux.HandleFunc("GET "+pathClaims, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(answer)) })
		server := httptest.NewServer(mux)
		t.Cleanup(server.Close)
		return &child{name: "peer", output: newOutput(), addr: strings.TrimPrefix(server.URL, "http://")}
	}
	got, err := askClaims(t.Context(), answering(`{"starts":300,"again":1,"first_ms":1700000000123}`))
	require.NoError(t, err)
	require.Equal(t, 300, got.completed)
	require.Equal(t, 1, got.again)
	require.Equal(t, int64(1700000000123), got.first.UnixMilli())

	_, err = askClaims(t.Context(), answering(`{"starts":0,"again":0,"first_ms":null}`))
	require.ErrorContains(t, err, "didn't see when a task was claimed")
}
