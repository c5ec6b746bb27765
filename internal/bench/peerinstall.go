package bench

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	nodeMajor      = 20 // what the packages need, as package.json says
	installTimeout = 5 * time.Minute
)

//go:embed peers/package.json peers/package-lock.json peers/*.mjs
var peerFiles embed.FS

// peerPrograms are the programs of the peers, installed.
type peerPrograms struct {
	node        string
	nodeVersion string
	dir         string            // with the programs and node_modules
	versions    map[string]string // of the packages
}

// installPeers finds Node and has npm install what the peers' programs import, once
// for each version of them, in the user's cache directory.
func installPeers(ctx context.Context, note func(string, ...any)) (*peerPrograms, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, installTimeout, fmt.Errorf("npm took longer than %s", installTimeout))
	defer cancel()
	p := &peerPrograms{}
	npm, err := p.findNode(ctx)
	if err != nil {
		return nil, err
	}
	files, sum, err := readPeerFiles()
	if err != nil {
		return nil, err
	}
	var manifest struct {
		Dependencies map[string]string `json:"dependencies"`
	}
	if err := json.Unmarshal(files["package.json"], &manifest); err != nil {
		return nil, fmt.Errorf("package.json of the peers: %w", err)
	}
	p.versions = manifest.Dependencies
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	p.dir = filepath.Join(cache, "sched-bench", "peers-"+sum)
	if _, err := os.Stat(p.dir); err == nil {
		return p, nil
	}
	note("installing graphile-worker and pg-boss with npm into %s", p.dir)
	return p, installInto(ctx, npm, p.dir, files)
}

// findNode looks for Node of a version that the packages know, and for npm.
func (p *peerPrograms) findNode(ctx context.Context) (npm string, err error) {
	advice := fmt.Sprintf("the peers are programs for Node %d or later, with npm (Debian 13: apt-get install nodejs npm; elsewhere: https://nodejs.org)", nodeMajor)
	if p.node, err = exec.LookPath("node"); err != nil {
		return "", fmt.Errorf("there is no node on this machine: %s", advice)
	}
	if npm, err = exec.LookPath("npm"); err != nil {
		return "", fmt.Errorf("there is no npm on this machine: %s", advice)
	}
	out, err := exec.CommandContext(ctx, p.node, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("node --version: %w", err)
	}
	p.nodeVersion = strings.TrimPrefix(strings.TrimSpace(string(out)), "v")
	major, _, _ := strings.Cut(p.nodeVersion, ".")
	if n, err := strconv.Atoi(major); err != nil || n < nodeMajor {
		return "", fmt.Errorf("node is version %s: %s", p.nodeVersion, advice)
	}
	return npm, nil
}

// readPeerFiles returns the programs by their names, and a hash of all.
func readPeerFiles() (files map[string][]byte, sum string, err error) {
	files = map[string][]byte{}
	hash := sha256.New()
	entries, err := fs.ReadDir(peerFiles, "peers")
	if err != nil {
		return nil, "", err
	}
	for _, entry := range entries {
		data, err := peerFiles.ReadFile("peers/" + entry.Name())
		if err != nil {
			return nil, "", err
		}
		files[entry.Name()] = data
		fmt.Fprintf(hash, "%s %d\n%s", entry.Name(), len(data), data)
	}
	return files, hex.EncodeToString(hash.Sum(nil)[:6]), nil
}

// installInto makes dir, which is there only when it is complete: two runs may
// install at once, and either may end halfway.
func installInto(ctx context.Context, npm, dir string, files map[string][]byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fmt.Errorf("installing the peers: %w", err)
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), ".install-")
	if err != nil {
		return fmt.Errorf("installing the peers: %w", err)
	}
	defer func() { err = closing(err, func() error { return os.RemoveAll(work) }) }()
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(work, name), data, 0o644); err != nil {
			return fmt.Errorf("installing the peers: %w", err)
		}
	}
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, npm, "ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir, cmd.Stdout, cmd.Stderr = work, &output, &output
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("npm ci for graphile-worker and pg-boss: %w (it needs npm's registry, or a mirror that npm is configured for)\n%s",
			err, strings.TrimSpace(output.String()))
	}
	if err := os.Rename(work, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("installing the peers: %w", err)
	}
	return nil
}
