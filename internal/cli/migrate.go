package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/sched-sidecar/sched/internal/config"
	"github.com/sched-sidecar/sched/migrations"
)

// migrateOptions are the flags of the migrate commands.
type migrateOptions struct {
	migrations.Options

	dsn  string
	to   int64
	yes  bool
	json bool
}

func (o *migrateOptions) addDSN(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.dsn, "dsn", "", "Postgres connection string (SCHED_DATABASE_URL, DATABASE_URL, PG*)")
}

func (o *migrateOptions) addJSON(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.json, "json", false, "print one JSON object a line, for programs")
}

func (o *migrateOptions) addRoles(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.BoolVar(&o.NoRoles, "no-roles", false, "leave roles and grants alone: for managed Postgres without CREATEROLE")
	fs.StringVar(&o.Roles.Owner, "role-owner", "", "role that owns the schema (default sched_owner)")
	fs.StringVar(&o.Roles.Sidecar, "role-sidecar", "", "role for sidecars (default sched_sidecar)")
	fs.StringVar(&o.Roles.Producer, "role-producer", "", "role that may only enqueue and control tasks (default sched_producer)")
	fs.StringVar(&o.Roles.Auditor, "role-auditor", "", "role that may only read the views (default sched_auditor)")
}

func migrateCommand(environ []string) *cobra.Command {
	return group("migrate", "Make, upgrade or remove the schema sched",
		migrateUpCommand(environ),
		migrateDownCommand(environ),
		migrateStatusCommand(environ),
		migrateVersionCommand(environ),
	)
}

func migrateUpCommand(environ []string) *cobra.Command {
	var o migrateOptions
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Bring the database to the newest version",
		Long: `Makes the schema sched, or upgrades it. Sidecars may run meanwhile, and a second
migration waits for the first. Running it again changes nothing.`,
		Args: noArgs,
	}
	o.addDSN(cmd)
	o.addRoles(cmd)
	cmd.Flags().Int64Var(&o.to, "to", 0, "stop at this migration (default the newest)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		dsn, err := config.LoadDSN(o.dsn, environ)
		if err != nil {
			return err
		}
		o.Logger = commandLogger(cmd.ErrOrStderr())
		if !cmd.Flags().Changed("to") {
			o.to = math.MaxInt64
		}
		if err := migrations.UpTo(cmd.Context(), dsn.Reveal(), o.to, o.Options); err != nil {
			return err
		}

		return printVersion(cmd.Context(), cmd.OutOrStdout(), dsn)
	}

	return cmd
}

func migrateDownCommand(environ []string) *cobra.Command {
	var o migrateOptions
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Remove the schema sched with all tasks",
		Long: `Takes back all migrations and removes the schema, with every task in it. At a
terminal it asks first. Roles stay unless --drop-roles is given: they belong to
the whole cluster, and other databases may use them.`,
		Args: noArgs,
	}
	o.addDSN(cmd)
	o.addRoles(cmd)
	fs := cmd.Flags()
	fs.Int64Var(&o.to, "to", 0, "take back only what is above this migration")
	fs.BoolVar(&o.DropRoles, "drop-roles", false, "drop the roles too")
	fs.BoolVarP(&o.yes, "yes", "y", false, "don't ask")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		dsn, err := config.LoadDSN(o.dsn, environ)
		if err != nil {
			return err
		}
		if !o.yes && isTerminal(cmd.InOrStdin()) {
			if err := confirmDown(cmd.InOrStdin(), cmd.ErrOrStderr(), dsn); err != nil {
				return err
			}
		}
		o.Logger = commandLogger(cmd.ErrOrStderr())
		if err := migrations.DownTo(cmd.Context(), dsn.Reveal(), o.to, o.Options); err != nil {
			return err
		}

		return printVersion(cmd.Context(), cmd.OutOrStdout(), dsn)
	}

	return cmd
}

// errNotConfirmed is returned by confirmDown.
var errNotConfirmed = errors.New("not confirmed: nothing was changed")

// confirmDown asks for the name of the database that is about to lose its tasks.
func confirmDown(in io.Reader, out io.Writer, dsn config.DSN) error {
	cfg, err := pgconn.ParseConfig(dsn.Reveal())
	if err != nil {
		return fmt.Errorf("parse the connection string: %w", err)
	}
	name := cfg.Database
	if name == "" {
		name = cfg.User
	}
	fmt.Fprintf(out, "This removes all tasks in the database %q on %s:%d.\nType its name to go on: ", name, cfg.Host, cfg.Port)
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if strings.TrimSpace(answer) != name {
		return errNotConfirmed
	}

	return nil
}

func isTerminal(in io.Reader) bool {
	f, ok := in.(*os.File)

	return ok && term.IsTerminal(int(f.Fd()))
}

func migrateStatusCommand(environ []string) *cobra.Command {
	var o migrateOptions
	cmd := &cobra.Command{
		Use:   "status",
		Short: "List the migrations and whether the database has them",
		Args:  noArgs,
	}
	o.addDSN(cmd)
	o.addJSON(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		dsn, err := config.LoadDSN(o.dsn, environ)
		if err != nil {
			return err
		}
		list, err := migrations.Status(cmd.Context(), dsn.Reveal())
		if err != nil {
			return err
		}
		if o.json {
			return objectsOfMigrations(newScreen(cmd, environ, true), list)
		}

		table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "VERSION\tNAME\tAPPLIED")
		for _, m := range list {
			applied := "no"
			if m.Applied {
				applied = m.AppliedAt.UTC().Format(time.RFC3339)
			}
			fmt.Fprintf(table, "%d\t%s\t%s\n", m.Version, m.Name, applied)
		}

		return table.Flush()
	}

	return cmd
}

// objectsOfMigrations prints a migration a line, for programs.
func objectsOfMigrations(s *screen, list []migrations.Migration) error {
	for _, m := range list {
		var at *time.Time
		if m.Applied {
			utc := m.AppliedAt.UTC()
			at = &utc
		}
		err := s.object(struct {
			Version   int64      `json:"version"`
			Name      string     `json:"name"`
			Applied   bool       `json:"applied"`
			AppliedAt *time.Time `json:"applied_at"`
		}{m.Version, m.Name, m.Applied, at})
		if err != nil {
			return err
		}
	}

	return nil
}

func migrateVersionCommand(environ []string) *cobra.Command {
	var o migrateOptions
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print how far the database is migrated",
		Args:  noArgs,
	}
	o.addDSN(cmd)
	o.addJSON(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		dsn, err := config.LoadDSN(o.dsn, environ)
		if err != nil {
			return err
		}

		if !o.json {
			return printVersion(cmd.Context(), cmd.OutOrStdout(), dsn)
		}
		info, err := migrations.Version(cmd.Context(), dsn.Reveal())
		if err != nil {
			return err
		}

		return newScreen(cmd, environ, true).object(struct {
			Current  int64 `json:"current"`
			Latest   int64 `json:"latest"`
			Contract int   `json:"contract"`
		}{info.Current, info.Latest, info.Contract})
	}

	return cmd
}

func printVersion(ctx context.Context, w io.Writer, dsn config.DSN) error {
	info, err := migrations.Version(ctx, dsn.Reveal())
	if err != nil {
		return err
	}
	if info.Current == 0 {
		_, err = fmt.Fprintf(w, "no schema sched; this program has migrations up to %d\n", info.Latest)

		return err
	}
	if info.Current > info.Latest {
		_, err = fmt.Fprintf(w, "schema sched is at migration %d, contract %d; this program has migrations up to %d: a later release made it\n", info.Current, info.Contract, info.Latest)

		return err
	}
	_, err = fmt.Fprintf(w, "schema sched is at migration %d of %d, contract %d\n", info.Current, info.Latest, info.Contract)

	return err
}

// commandLogger logs for a person who waits for a command: without the time.
func commandLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}

			return a
		},
	}))
}
