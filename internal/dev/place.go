package dev

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// rootState is where root keeps the data: its server runs as another account, which can't enter root's home.
const rootState = "/var/lib/sched/dev"

// dsnFile is written into the data directory at each start.
const dsnFile = "dsn"

// Place finds the data directory of the project that dir belongs to: the nearest directory above that holds .git, or dir
// itself. getenv is as of os.Getenv; root says that this is root.
func Place(dir string, getenv func(string) string, root bool) (string, error) {
	project, err := projectOf(dir)
	if err != nil {
		return "", err
	}
	state := rootState
	if !root {
		if state, err = userState(getenv); err != nil {
			return "", err
		}
	}
	// The path tells projects of one name apart, the name helps a person who looks there.
	sum := sha256.Sum256([]byte(project))
	return filepath.Join(state, nameOf(project)+"-"+hex.EncodeToString(sum[:4])), nil
}

func projectOf(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, ".git")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return dir, nil
		}
	}
}

func userState(getenv func(string) string) (string, error) {
	if state := getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "sched", "dev"), nil
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "sched", "dev"), nil
	}
	return "", errors.New("HOME is not set: say with --dir where to keep the data, or use --ephemeral")
}

var notInName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

func nameOf(project string) string {
	const longest = 40 // a Unix socket's path has little room
	name := strings.Trim(notInName.ReplaceAllString(filepath.Base(project), "-"), "-.")
	if name == "" {
		name = "project"
	}
	return name[:min(len(name), longest)]
}

// makeParents makes the directories above a data directory, open to root's server.
func makeParents(dir string) error {
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil { //nolint:gosec // see above
		return fmt.Errorf("making %s: %w", parent, err)
	}
	if parent != rootState {
		return nil
	}
	for _, made := range []string{rootState, filepath.Dir(rootState)} {
		if err := os.Chmod(made, 0o755); err != nil { //nolint:gosec // whatever the umask was
			return err
		}
	}
	return nil
}
