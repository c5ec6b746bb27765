package pooler_test

import (
	"context"
	"encoding/binary"
	"io"
	"math"
	"net"
	"net/url"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/internal/pooler"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// The real thing, PgBouncer, is in test/postgres.

func TestPostgresItselfIsNoPooler(t *testing.T) {
	t.Parallel()
	config := parse(t, pgtest.DSN(pgtest.Empty(t)))

	pooled, err := pooler.Adapt(t.Context(), config)

	require.NoError(t, err)
	require.False(t, pooled)
	require.Equal(t, pgx.QueryExecModeCacheStatement, config.DefaultQueryExecMode)
	shared, err := pooler.Shared(t.Context(), connect(t, config), connect(t, config))
	require.NoError(t, err)
	require.False(t, shared)
}

func TestWhoeverGreetsForPostgresIsAPooler(t *testing.T) {
	t.Parallel()
	dsn := greeter(t, pgtest.DSN(pgtest.Empty(t)))

	config := parse(t, dsn)
	pooled, err := pooler.Adapt(t.Context(), config)
	require.NoError(t, err)
	require.True(t, pooled)
	require.Equal(t, pgx.QueryExecModeCacheDescribe, config.DefaultQueryExecMode)

	chosen := parse(t, dsn+"&default_query_exec_mode=simple_protocol")
	pooled, err = pooler.Adapt(t.Context(), chosen)
	require.NoError(t, err)
	require.True(t, pooled)
	require.Equal(t, pgx.QueryExecModeSimpleProtocol, chosen.DefaultQueryExecMode, "the connection string has the last word")

	shared, err := pooler.Shared(t.Context(), connect(t, config), connect(t, config))
	require.NoError(t, err)
	require.False(t, shared, "each connection has a server process of its own, as in PgBouncer's session mode")
	conn := connect(t, config)
	shared, err = pooler.Shared(t.Context(), conn, conn)
	require.NoError(t, err)
	require.True(t, shared)
}

func TestAdaptSaysWhyThereIsNoConnection(t *testing.T) {
	t.Parallel()
	_, err := pooler.Adapt(t.Context(), parse(t, "user=u password=topsecret dbname=d host="+t.TempDir()))

	require.ErrorContains(t, err, "no such file or directory")
	require.NotContains(t, err.Error(), "topsecret")
}

func parse(t *testing.T, dsn string) *pgx.ConnConfig {
	t.Helper()
	config, err := pgx.ParseConfig(dsn)
	require.NoError(t, err)
	return config
}

func connect(t *testing.T, config *pgx.ConnConfig) *pgx.Conn {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) })
	return conn
}

// greeter is a proxy that tells its clients a process id of its own invention.
func greeter(t *testing.T, dsn string) string {
	t.Helper()
	server := parse(t, dsn)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { join(client, &server.Config) })
		}
	})
	t.Cleanup(func() {
		require.NoError(t, listener.Close())
		wg.Wait()
	})
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(server.User, server.Password), Host: listener.Addr().String(),
		Path: "/" + server.Database, RawQuery: "sslmode=disable",
	}
	return u.String()
}

func join(client net.Conn, server *pgconn.Config) {
	defer client.Close()
	backend, err := net.Dial(pgconn.NetworkAddress(server.Host, server.Port))
	if err != nil {
		return
	}
	defer backend.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.Copy(backend, client)
		_ = backend.Close()
	})
	forward(client, backend)
	_ = client.Close()
	wg.Wait()
}

// forward passes the server's messages on, with another process id in the one
// that tells it.
func forward(client io.Writer, backend io.Reader) {
	for {
		const head = 5
		message := make([]byte, head)
		if _, err := io.ReadFull(backend, message); err != nil {
			return
		}
		rest := make([]byte, binary.BigEndian.Uint32(message[1:])-4)
		if _, err := io.ReadFull(backend, rest); err != nil {
			return
		}
		if message[0] == 'K' {
			binary.BigEndian.PutUint32(rest, math.MaxUint32) // more than Postgres' own ever are
		}
		if _, err := client.Write(slices.Concat(message, rest)); err != nil {
			return
		}
	}
}
