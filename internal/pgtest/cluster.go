package pgtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sched-sidecar/sched/internal/devpg"
)

const (
	dsnVariable = "SCHED_TEST_DSN"
	prefix      = "sched_test_" // of every database made here: <prefix><process tag>_<number>
	startLimit  = 2 * time.Minute
	stepLimit   = time.Minute

	// migrateLock lets one process at a time migrate on a shared server: roles belong to all databases.
	migrateLock = 7164239001
)

// cluster is a server on which databases are made for the tests of this process.
type cluster struct {
	server *devpg.Server // nil when SCHED_TEST_DSN names one
	dsn    string        // of the maintenance database
	tag    string
	alive  *pgx.Conn // holds the lock that tells other processes that our databases are in use
	serial atomic.Int64

	template func() (string, error)
}

// shared opens the cluster of this process. It's global: the tests of a process have nothing else in common to keep it in.
//
//nolint:gochecknoglobals // see above
var shared = sync.OnceValues(func() (*cluster, error) {
	started.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	return openCluster(ctx, os.Getenv(dsnVariable))
})

// started tells whether there is a shared server to end.
//
//nolint:gochecknoglobals // as shared itself
var started atomic.Bool

func openCluster(ctx context.Context, dsn string) (*cluster, error) {
	c := &cluster{dsn: dsn, tag: fmt.Sprintf("%08x", rand.Uint32())}
	c.template = sync.OnceValues(c.makeTemplate)
	if dsn == "" {
		server, err := devpg.Start(ctx, devpg.Options{Fast: true})
		if err != nil {
			return nil, err
		}
		c.server, c.dsn = server, server.SocketDSN("postgres")
		return c, nil
	}
	var err error
	if c.alive, err = pgx.Connect(ctx, dsn); err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", dsnVariable, err)
	}
	if _, err := c.alive.Exec(ctx, "SELECT pg_advisory_lock(hashtextextended($1, 0))", prefix+c.tag); err != nil {
		return nil, errors.Join(err, c.alive.Close(ctx))
	}
	if err := c.sweep(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("dropping databases of dead test processes: %w", err), c.alive.Close(ctx))
	}
	return c, nil
}

// sweep drops the databases of test processes that died: nobody holds their lock any more.
func (c *cluster) sweep(ctx context.Context) error {
	rows, err := c.alive.Query(ctx, `SELECT datname FROM pg_database WHERE starts_with(datname, $1)`, prefix)
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, name := range names {
		tag, _, _ := strings.Cut(strings.TrimPrefix(name, prefix), "_")
		if tag == c.tag {
			continue
		}
		var dead bool
		err := c.alive.QueryRow(ctx, "SELECT pg_try_advisory_lock(hashtextextended($1, 0))", prefix+tag).Scan(&dead)
		if err != nil {
			return err
		}
		if !dead {
			continue
		}
		if _, err := c.alive.Exec(ctx, dropStatement(name)); err != nil {
			return err
		}
		if _, err := c.alive.Exec(ctx, "SELECT pg_advisory_unlock(hashtextextended($1, 0))", prefix+tag); err != nil {
			return err
		}
	}
	return nil
}

// close ends the server, or takes our template off the shared one.
func (c *cluster) close(ctx context.Context) error {
	if c.server != nil {
		return c.server.Stop()
	}
	rows, err := c.alive.Query(ctx, `SELECT datname FROM pg_database WHERE starts_with(datname, $1)`, prefix+c.tag+"_")
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, name := range names {
		_, dropErr := c.alive.Exec(ctx, dropStatement(name))
		err = errors.Join(err, dropErr)
	}
	return errors.Join(err, c.alive.Close(ctx))
}

func dropStatement(name string) string {
	return "DROP DATABASE IF EXISTS " + pgx.Identifier{name}.Sanitize() + " WITH (FORCE)"
}

func (c *cluster) makeTemplate() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
	defer cancel()
	name, err := c.create(ctx, "template0")
	if err != nil {
		return "", err
	}
	return name, c.withConn(ctx, func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", migrateLock); err != nil {
			return err
		}
		if err := migrate(ctx, c.dsnFor(name)); err != nil {
			return fmt.Errorf("migrating the template: %w", err)
		}
		// Nobody may be connected to a template while it is cloned, autovacuum's workers included.
		_, err := conn.Exec(ctx, "ALTER DATABASE "+pgx.Identifier{name}.Sanitize()+" ALLOW_CONNECTIONS false")
		return err
	})
}

// create makes a database as a copy of another one.
func (c *cluster) create(ctx context.Context, template string) (string, error) {
	name := fmt.Sprintf("%s%s_%d", prefix, c.tag, c.serial.Add(1))
	err := c.withConn(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s",
			pgx.Identifier{name}.Sanitize(), pgx.Identifier{template}.Sanitize()))
		return err
	})
	if err != nil {
		return "", fmt.Errorf("creating a database from %s: %w", template, err)
	}
	return name, nil
}

func (c *cluster) drop(ctx context.Context, name string) error {
	return c.withConn(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, dropStatement(name))
		return err
	})
}

func (c *cluster) withConn(ctx context.Context, use func(*pgx.Conn) error) error {
	return connected(ctx, c.dsn, use)
}

// connected uses a connection of its own each time: a pool would keep a goroutine, which leak checks would find.
func connected(ctx context.Context, dsn string, use func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	return errors.Join(use(conn), conn.Close(ctx))
}

func (c *cluster) dsnFor(database string) string {
	if c.server != nil {
		return c.server.SocketDSN(database)
	}
	return withDatabase(c.dsn, database)
}

// withDatabase replaces the database in a URL or in a list of key=value settings, where the last one counts.
func withDatabase(dsn, database string) string {
	if !strings.HasPrefix(dsn, "postgres://") && !strings.HasPrefix(dsn, "postgresql://") {
		return dsn + " dbname=" + database
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return dsn // pgx refuses it with a better message
	}
	u.Path = "/" + database
	query := u.Query()
	query.Del("dbname")
	query.Del("database")
	u.RawQuery = query.Encode()
	return u.String()
}
