package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// pathClaims is what a peer's process tells of the rows it was given.
const pathClaims = "/bench/claims"

// fill has a peer make its tables and enqueue tasks in bulk.
func (p *peerPrograms) fill(peer string, env []string) func(context.Context, *database, int) error {
	return func(ctx context.Context, db *database, tasks int) error {
		ctx, cancel := context.WithTimeout(ctx, setupTimeout)
		defer cancel()
		where, err := nodeDatabase(db.dsn)
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, p.node, p.script(peer), "fill", strconv.Itoa(tasks))
		cmd.Env = childEnv(append(where, env...))
		endWithParent(cmd)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("filling %s's table: %w\n%s", peer, err, out)
		}
		return nil
	}
}

// work starts a peer's process, which claims as soon as it runs.
func (p *peerPrograms) work(peer string, env []string) func(context.Context, *database, sidecarOptions) (*crew, error) {
	return func(ctx context.Context, db *database, _ sidecarOptions) (*crew, error) {
		where, err := nodeDatabase(db.dsn)
		if err != nil {
			return nil, err
		}
		client, err := startChild(ctx, peer, []string{p.node, p.script(peer), "work"}, append(where, env...))
		return &crew{client, client}, err
	}
}

func (p *peerPrograms) script(peer string) string { return filepath.Join(p.dir, peer+".mjs") }

// askClaims asks a peer's process.
func askClaims(ctx context.Context, peer *child) (l ledger, err error) {
	var claims struct {
		Starts  int     `json:"starts"`
		Again   int     `json:"again"`
		FirstMS float64 `json:"first_ms"`
	}
	err = peer.get(ctx, pathClaims, func(body io.Reader) error { return json.NewDecoder(body).Decode(&claims) })
	if err == nil && claims.FirstMS == 0 {
		err = errors.New("it didn't see when a task was claimed")
	}
	if err != nil {
		return l, err
	}
	return ledger{claims.Starts, claims.Again, time.UnixMicro(int64(claims.FirstMS * 1000))}, nil
}

// nodeDatabase is a database as Node's driver reads it from its environment: it
// knows no DSN of other forms than a URL, and of TLS less than pgx.
func nodeDatabase(dsn string) ([]string, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("the database: %w", err)
	}
	mode := "verify-full"
	switch {
	case config.TLSConfig == nil:
		mode = "disable"
	case config.TLSConfig.InsecureSkipVerify && config.TLSConfig.VerifyPeerCertificate == nil:
		mode = "no-verify"
	}
	for _, fallback := range config.Fallbacks {
		if fallback.TLSConfig == nil {
			mode = "disable" // TLS is preferred, not asked for
		}
	}
	return []string{
		"PGHOST=" + config.Host, "PGPORT=" + strconv.Itoa(int(config.Port)), "PGDATABASE=" + config.Database,
		"PGUSER=" + config.User, "PGPASSWORD=" + config.Password, "PGSSLMODE=" + mode,
	}, nil
}
