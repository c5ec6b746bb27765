package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/sched-sidecar/sched/internal/config"
)

// connectError is that no connection was made, with what to do about it.
type connectError struct {
	err    error
	advice string
}

// Error leaves out what the driver says twice: that each way of connecting to one address
// failed alike.
func (e *connectError) Error() string {
	head, rest, several := strings.Cut(e.err.Error(), "\n\t")
	if several {
		ways := slices.Compact(strings.Split(rest, "\n\t"))
		head += " " + strings.Join(ways, "\n\t")
	}

	return head + "; " + e.advice
}

func (e *connectError) Unwrap() error { return e.err }

// adviseOnConnections has all commands below root that take a connection string say what
// to do when no connection is made.
func adviseOnConnections(root *cobra.Command, environ []string) {
	for _, cmd := range root.Commands() {
		adviseOnConnections(cmd, environ)
		run, flag := cmd.RunE, cmd.Flags().Lookup("dsn")
		if run == nil || flag == nil || flag.Name != "dsn" {
			continue
		}
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			err := run(cmd, args)
			var connect *pgconn.ConnectError
			if !errors.As(err, &connect) || errors.Is(err, context.Canceled) {
				return err
			}

			return &connectError{err, connectAdvice(connect, databaseSource(flag.Value.String(), environ))}
		}
	}
}

// connectAdvice says what to do about an error with the connection string from source;
// empty: nobody gave one.
func connectAdvice(err error, source string) string {
	if source == "" {
		return "no database is named: give --dsn, or set " + config.Field{Key: "database.url"}.Env() + " (sched dev starts one, and prints its DSN)"
	}
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		switch refused.Code {
		case "3D000":
			return fmt.Sprintf("create the database, or name another one in %s", source)
		case "28P01", "28000":
			return fmt.Sprintf("check the user and the password in %s, and the server's pg_hba.conf", source)
		default:
			return fmt.Sprintf("check the server, and %s", source)
		}
	}

	return fmt.Sprintf("check host and port in %s, and that Postgres runs there", source)
}

// databaseSource names where a command's connection string is from, as [config.LoadDSN]
// looks; empty when nothing gives one.
func databaseSource(flag string, environ []string) string {
	if flag != "" {
		return "--dsn"
	}
	own := config.Field{Key: "database.url"}.Env()
	for _, name := range []string{own, own + "_FILE", "DATABASE_URL", "PGHOST", "PGHOSTADDR", "PGSERVICE", "PGDATABASE", "PGPORT"} {
		if variable(environ, name) == "" {
			continue
		}
		if strings.HasPrefix(name, "PG") {
			return "the PG* variables"
		}

		return name
	}

	return ""
}
