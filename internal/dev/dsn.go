package dev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const dsnTimeout = 3 * time.Second

// ErrNotRunning is returned by [RunningDSN] when no server runs with this data.
var ErrNotRunning = errors.New("sched dev is not running here")

// RunningDSN is the DSN of the server that runs with the data in dir.
func RunningDSN(ctx context.Context, dir string) (string, error) {
	dsn := recordedDSN(dir)
	if dsn == "" {
		return "", fmt.Errorf("%w, or it is still starting for the first time: its data would be in %s; start it in this project, without --ephemeral, and wait for the line with its DSN", ErrNotRunning, dir)
	}
	ctx, cancel := context.WithTimeout(ctx, dsnTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return "", fmt.Errorf("%w: start it first (its data are in %s)", ErrNotRunning, dir)
	}
	return dsn, conn.Close(ctx)
}

// recordedDSN is that of the last start; empty when there was none.
func recordedDSN(dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, dsnFile))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func recordDSN(dir, dsn string) error {
	return os.WriteFile(filepath.Join(dir, dsnFile), []byte(dsn+"\n"), 0o600)
}

// portOfDSN is the port in a DSN; 0 when it says none.
func portOfDSN(dsn string) int {
	config, err := pgx.ParseConfig(dsn)
	if dsn == "" || err != nil {
		return 0
	}
	return int(config.Port)
}
