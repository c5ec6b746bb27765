package dev

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/sched-sidecar/sched/internal/devpg"
	"github.com/sched-sidecar/sched/migrations"
)

// firstPort is where a project's Postgres is unless it is taken; its neighbours are for other projects.
const (
	firstPort  = 54329
	neighbours = 10
)

// postgres is our server, migrated.
type postgres struct {
	server  *devpg.Server
	dsn     string
	lastDSN string // of the last start with these data
	log     string // path of its log
	version string
}

func (p *postgres) stop() error { return p.server.Stop() }

// startPostgres starts the server and brings its schema up to date.
func (s *server) startPostgres(ctx context.Context) (*postgres, error) {
	opts, err := s.postgresOptions(ctx)
	if err != nil {
		return nil, err
	}
	p := &postgres{}
	if opts.Dir != "" {
		p.lastDSN = recordedDSN(opts.Dir)
	}
	if p.server, err = devpg.Start(ctx, opts); err != nil {
		err = withOtherPlace(err)
		if opts.Version != "" {
			err = fmt.Errorf("%w\nthe data in %s are Postgres %s's; to do without them remove that directory", err, opts.Dir, opts.Version)
		}
		return nil, err
	}
	p.dsn, p.log = p.server.DSN(), filepath.Join(p.server.Dir(), "server.log")
	if err := s.migrate(ctx, p); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

func (s *server) postgresOptions(ctx context.Context) (devpg.Options, error) {
	opts := devpg.Options{
		Port: s.opts.Port,
		Settings: map[string]string{
			"log_line_prefix": "", // each line stands beside others that have no time either
			"log_checkpoints": "off",
		},
		// It announces what it downloads or installs.
		Logger: slog.New(slog.NewTextHandler(s.console.writer(postgresSource()), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if s.opts.Ephemeral {
		opts.Fast = true
		s.console.say(postgresSource(), "starting, for this run alone")
		return opts, nil
	}
	opts.Dir = s.opts.Dir
	if dsn, err := RunningDSN(ctx, opts.Dir); err == nil {
		return opts, fmt.Errorf("sched dev runs already with the data in %s; its DSN is %s: stop it, or use another --dir or --ephemeral", opts.Dir, dsn)
	}
	if opts.Port == 0 {
		opts.PreferPorts = append(opts.PreferPorts, portOfDSN(recordedDSN(opts.Dir)))
		for i := range neighbours {
			opts.PreferPorts = append(opts.PreferPorts, firstPort+i)
		}
	}
	if err := makeParents(opts.Dir); err != nil {
		return opts, withOtherPlace(err)
	}
	major, err := os.ReadFile(filepath.Join(opts.Dir, "data", "PG_VERSION"))
	switch {
	case err == nil:
		opts.Version = strings.TrimSpace(string(major)) // no other reads them
		s.console.say(postgresSource(), "starting with the data in %s", opts.Dir)
	case errors.Is(err, fs.ErrNotExist):
		s.console.say(postgresSource(), "starting for the first time, and making %s", opts.Dir)
	case errors.Is(err, fs.ErrPermission):
		return opts, fmt.Errorf("%w: these data are another user's; use another --dir, or --ephemeral", err)
	default:
		return opts, withOtherPlace(err)
	}
	return opts, nil
}

// withOtherPlace says what to do when files can't be made or read where the data are to be.
func withOtherPlace(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return fmt.Errorf("%w; keep the data elsewhere with --dir, or use --ephemeral", err)
	}
	return err
}

func (s *server) migrate(ctx context.Context, p *postgres) error {
	if err := migrations.Up(ctx, p.dsn, migrations.Options{}); err != nil {
		if errors.Is(err, migrations.ErrSchemaTooNew) {
			err = fmt.Errorf("%w; or remove %s to begin anew", err, p.server.Dir())
		}
		return err
	}
	conn, err := pgx.Connect(ctx, p.dsn)
	if err != nil {
		return err
	}
	p.version, _, _ = strings.Cut(conn.PgConn().ParameterStatus("server_version"), " ")
	if err := conn.Close(ctx); err != nil || s.opts.Ephemeral {
		return err
	}
	return recordDSN(s.opts.Dir, p.dsn)
}
