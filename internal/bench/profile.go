package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

const (
	profileSeconds = 5
	statementsTop  = 15
)

// profile drains once more, without counting it, and leaves in dir the sidecar's
// CPU profile, what it allocated since its start, and the statements that took Postgres's time.
func (r *Runner) profile(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("--profile: %w", err)
	}
	contender := r.sched()
	prepare := contender.prepare
	var oid uint32
	contender.prepare = func(ctx context.Context, db *database, tasks int) error {
		if err := prepare(ctx, db, tasks); err != nil {
			return err
		}
		return r.server.track(ctx, db, &oid)
	}
	_, err := r.drainRound(ctx, contender, func(ctx context.Context, _ *database, crew *crew) error {
		cpu := "/debug/pprof/profile?seconds=" + strconv.Itoa(profileSeconds)
		if err := saveProfile(ctx, crew.client, cpu, filepath.Join(dir, "sidecar.pprof")); err != nil {
			return err
		}
		return saveProfile(ctx, crew.client, "/debug/pprof/allocs", filepath.Join(dir, "sidecar.allocs.pprof"))
	})
	if err != nil {
		return fmt.Errorf("profiled round: %w", err)
	}
	if r.server.statements {
		if err := r.server.saveStatements(ctx, oid, filepath.Join(dir, "statements.txt")); err != nil {
			return err
		}
	}
	r.report.note("profiles of one more round are in %s", dir)
	return nil
}

// saveProfile writes what the sidecar answers to a file.
func saveProfile(ctx context.Context, sidecar *child, ask, path string) error {
	return sidecar.get(ctx, ask, func(body io.Reader) error {
		f, err := os.Create(path)
		if err != nil {
			return fmt.Errorf("--profile: %w", err)
		}
		_, err = io.Copy(f, body)
		return closing(err, f.Close)
	})
}

// track has pg_stat_statements, where it is loaded, count what later connections
// do in the database, and forgets what it counted there.
func (s *server) track(ctx context.Context, db *database, oid *uint32) error {
	if err := db.pool.QueryRow(ctx, "select oid from pg_database where datname = $1", db.name).Scan(oid); err != nil {
		return fmt.Errorf("tracking statements: %w", err)
	}
	if !s.statements {
		return nil
	}
	_, err := s.admin.Exec(ctx, "alter database "+pgx.Identifier{db.name}.Sanitize()+" set pg_stat_statements.track = 'top'")
	if err != nil {
		return fmt.Errorf("tracking statements: %w; the role of --dsn must be a superuser", err)
	}
	return nil
}

// statement is one of those that took the most time.
type statement struct {
	Calls       int64
	Total, Mean float64 // milliseconds
	Rows        int64
	Query       string
}

func (s *server) topStatements(ctx context.Context, oid uint32) ([]statement, error) {
	rows, err := s.admin.Query(ctx, `select calls, total_exec_time, mean_exec_time, rows, regexp_replace(query, '\s+', ' ', 'g')
		from pg_stat_statements where dbid = $1 order by total_exec_time desc limit $2`, oid, statementsTop)
	if err != nil {
		return nil, fmt.Errorf("reading pg_stat_statements: %w", err)
	}
	statements, err := pgx.CollectRows(rows, pgx.RowToStructByPos[statement])
	if err != nil {
		return nil, fmt.Errorf("reading pg_stat_statements: %w", err)
	}
	return statements, nil
}

// saveStatements writes what took the most time in a database.
func (s *server) saveStatements(ctx context.Context, oid uint32, path string) error {
	statements, err := s.topStatements(ctx, oid)
	if err != nil {
		return err
	}
	var text strings.Builder
	text.WriteString("calls  total ms  mean ms  rows  statement\n")
	for _, st := range statements {
		const width = 160
		fmt.Fprintf(&text, "%5d  %8.0f  %7.3f  %5d  %.*s\n", st.Calls, st.Total, st.Mean, st.Rows, width, st.Query)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("--profile: %w", err)
	}
	return nil
}
