package cli

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

func TestNoConnectionSaysWhatToDo(t *testing.T) {
	t.Parallel()
	const nobody = "postgres://u:hunter2@127.0.0.1:1/d"
	for name, tt := range map[string]struct {
		environ, args []string
		want          string
	}{
		"a flag":         {nil, []string{"tasks", "list", "--dsn", nobody}, "; check host and port in --dsn, and that Postgres runs there\n"},
		"a variable":     {[]string{"SCHED_DATABASE_URL=" + nobody}, []string{"export"}, "; check host and port in SCHED_DATABASE_URL, and that Postgres runs there\n"},
		"for migrations": {[]string{"DATABASE_URL=" + nobody}, []string{"migrate", "up"}, "; check host and port in DATABASE_URL, and that Postgres runs there\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := runs(schedCommand(tt.environ), nil, tt.args...)
			require.Equal(t, exitFailed, got.code)
			require.Contains(t, got.stderr, tt.want)
			require.NotContains(t, got.stderr, "hunter2")
			require.NotContains(t, got.stderr, "\n\t", "one address is named once, though it was tried twice")
		})
	}
}

func TestConnectAdvice(t *testing.T) {
	t.Parallel()
	refused := func(code string) *pgconn.PgError { return &pgconn.PgError{Code: code} }
	for name, tt := range map[string]struct {
		err    error
		source string
		want   string
	}{
		"nothing was given": {errors.New("no such file"), "", "no database is named: give --dsn, or set SCHED_DATABASE_URL (sched dev starts one, and prints its DSN)"},
		"no such database":  {refused("3D000"), "--dsn", "create the database, or name another one in --dsn"},
		"a wrong password":  {refused("28P01"), "--dsn", "check the user and the password in --dsn, and the server's pg_hba.conf"},
		"too many":          {refused("53300"), "--dsn", "check the server, and --dsn"},
		"nobody listens":    {errors.New("refused"), "--dsn", "check host and port in --dsn, and that Postgres runs there"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, connectAdvice(tt.err, tt.source))
		})
	}
}

func TestDatabaseSource(t *testing.T) {
	t.Parallel()
	environ := []string{"PGHOST=h"}
	require.Empty(t, databaseSource("", []string{"PGHOST=", "PATH=x"}))
	require.Equal(t, "the PG* variables", databaseSource("", environ))
	environ = append(environ, "DATABASE_URL=d")
	require.Equal(t, "DATABASE_URL", databaseSource("", environ))
	environ = append(environ, "SCHED_DATABASE_URL_FILE=/f")
	require.Equal(t, "SCHED_DATABASE_URL_FILE", databaseSource("", environ))
	require.Equal(t, "--dsn", databaseSource("x", environ))
}
