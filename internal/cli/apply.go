package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/sched-sidecar/sched/internal/config"
	"github.com/sched-sidecar/sched/internal/fleetfile"
	"github.com/sched-sidecar/sched/internal/operator"
	"github.com/sched-sidecar/sched/migrations"
)

// maxFleetFile bounds what is read of a fleet file.
const maxFleetFile = 4 << 20

// applyOptions are the flags of apply.
type applyOptions struct {
	fleetfile.Options

	dsn    string
	file   string
	dryRun bool
	json   bool
}

func applyCommand(environ []string) *cobra.Command {
	var o applyOptions
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Make settings, queues and kinds what a file says",
		Long: `Makes the settings, queues and kinds of the database what a YAML file says, in one
transaction, and shows what changed. Doing it again changes nothing. An entry of
the file is the whole row: what it leaves out is not set. A section that the file
leaves out is not touched. Entries that only the database has stay unless --prune
is given: then kinds go, and settings and queues get back their defaults.

A row that an operator pinned (UPDATE sched.kind SET pinned = true …) is never
changed: it is reported, and the exit code is 0.`,
		Args: noArgs,
	}
	fs := cmd.Flags()
	fs.StringVarP(&o.file, "file", "f", "", "the file; - for standard input")
	fs.BoolVar(&o.dryRun, "dry-run", false, "show what would change, and change nothing")
	fs.BoolVar(&o.Prune, "prune", false, "remove what the file's sections don't have")
	fs.BoolVar(&o.json, "json", false, "print one JSON object a change")
	addFleetDSN(cmd, &o.dsn)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if o.file == "" {
			return &usageError{errors.New("apply: needs a file: -f fleet.yaml, or -f - for standard input")}
		}
		text, err := readFleetFile(cmd.InOrStdin(), o.file)
		if err != nil {
			return err
		}
		file, err := fleetfile.Parse(o.file, text)
		if err != nil {
			return &usageError{err}
		}

		return withFleet(cmd.Context(), o.dsn, environ, func(db fleetfile.DB) error { return runApply(cmd, db, file, o) })
	}

	return cmd
}

func runApply(cmd *cobra.Command, db fleetfile.DB, file fleetfile.Fleet, o applyOptions) error {
	run := fleetfile.Apply
	if o.dryRun {
		run = fleetfile.Plan
	}
	changes, err := run(cmd.Context(), db, file, o.Options)
	if err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	if o.json {
		return writeFleetJSON(cmd.OutOrStdout(), changes, o.dryRun)
	}

	return writeFleet(cmd.OutOrStdout(), changes, o.dryRun)
}

func exportCommand(environ []string) *cobra.Command {
	var dsn string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write the settings, queues and kinds as a file for apply",
		Long: `Writes all settings, the queues that have something configured, and all kinds as
a YAML file. Applying it changes nothing.`,
		Args: noArgs,
	}
	addFleetDSN(cmd, &dsn)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return withFleet(cmd.Context(), dsn, environ, func(db fleetfile.DB) error {
			fleet, err := fleetfile.Read(cmd.Context(), db)
			if err != nil {
				return fmt.Errorf("export: %w", err)
			}
			text, err := fleetfile.Export(fleet.Configured())
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)

			return err
		})
	}

	return cmd
}

func addFleetDSN(cmd *cobra.Command, dsn *string) {
	cmd.Flags().StringVar(dsn, "dsn", "", "Postgres connection string (SCHED_DATABASE_URL, DATABASE_URL, PG*)")
}

// withFleet connects to a database whose schema this program knows.
func withFleet(ctx context.Context, flag string, environ []string, work func(fleetfile.DB) error) error {
	dsn, err := config.LoadDSN(flag, environ)
	if err != nil {
		return err
	}
	op, err := operator.Connect(ctx, dsn.Reveal())
	if err != nil {
		return err
	}
	defer func() { _ = op.Close(context.WithoutCancel(ctx)) }() // what counts is committed
	if err := migrations.CheckContract(ctx, op.Conn()); err != nil {
		return err
	}
	err = work(op.Conn())
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == "42501" {
		return fmt.Errorf("%w: apply needs the rights of sched_owner, export and --dry-run those of sched_sidecar", err)
	}

	return err
}

func readFleetFile(stdin io.Reader, name string) ([]byte, error) {
	in := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, &usageError{err}
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxFleetFile+1))
	if err != nil {
		return nil, &usageError{err}
	}
	if len(text) > maxFleetFile {
		return nil, &usageError{fmt.Errorf("%s is longer than %d bytes", name, maxFleetFile)}
	}

	return text, nil
}

// writeFleet prints a change a line, and a line with their numbers.
func writeFleet(w io.Writer, changes []fleetfile.Change, dryRun bool) error {
	counts := map[fleetfile.Action]int{}
	var b strings.Builder
	for _, c := range changes {
		counts[c.Action]++
		b.WriteString(fleetLine(c) + "\n")
	}
	done := counts[fleetfile.Add] + counts[fleetfile.Alter] + counts[fleetfile.Remove]
	switch {
	case done == 0:
		b.WriteString("nothing to change")
	case dryRun:
		fmt.Fprintf(&b, "dry run, nothing was changed: %s", fleetCounts(counts))
	default:
		b.WriteString(fleetCounts(counts))
	}
	if n := counts[fleetfile.Pinned]; n > 0 {
		fmt.Fprintf(&b, "; %d pinned and left as they are", n)
	}
	if n := counts[fleetfile.Extra]; n > 0 {
		fmt.Fprintf(&b, "; %d not in the file and kept (--prune removes them)", n)
	}
	b.WriteString("\n")
	_, err := io.WriteString(w, b.String())

	return err
}

func fleetCounts(counts map[fleetfile.Action]int) string {
	return fmt.Sprintf("%d added, %d changed, %d removed", counts[fleetfile.Add], counts[fleetfile.Alter], counts[fleetfile.Remove])
}

func fleetLine(c fleetfile.Change) string {
	name := c.Section.One() + " " + c.Entry.Title()
	var values, moves []string
	for _, f := range c.Fields {
		values = append(values, f.Key+" "+fleetfile.Show(f.To))
		moves = append(moves, fmt.Sprintf("%s %s → %s", f.Key, fleetfile.Show(f.From), fleetfile.Show(f.To)))
	}
	changed := ""
	if len(moves) > 0 {
		changed = ": " + strings.Join(moves, ", ")
	}
	switch c.Action {
	case fleetfile.Add:
		if len(values) > 0 {
			return "+ " + name + ": " + strings.Join(values, ", ")
		}

		return "+ " + name
	case fleetfile.Alter:
		return "~ " + name + changed
	case fleetfile.Remove:
		if c.Section == fleetfile.Kinds || c.Section == fleetfile.Schedules {
			return "- " + name
		}

		return "- " + name + changed
	case fleetfile.Pinned:
		by := ""
		if c.Entry.By != "" {
			by = " by " + c.Entry.By
		}

		return "! " + name + " is pinned" + by + " and left as it is" + changed
	default:
		return "? " + name + " is not in the file, and kept"
	}
}

// fleetObject is a change for programs.
type fleetObject struct {
	Action   fleetfile.Action  `json:"action"`
	Type     string            `json:"type"`
	Name     string            `json:"name"`
	Selector map[string]string `json:"selector,omitempty"`
	Protocol string            `json:"protocol,omitempty"`
	From     fleetfile.Values  `json:"from"`
	To       fleetfile.Values  `json:"to"`
	DryRun   bool              `json:"dry_run"`
}

func writeFleetJSON(w io.Writer, changes []fleetfile.Change, dryRun bool) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	for _, c := range changes {
		o := fleetObject{
			Action: c.Action, Type: c.Section.One(), Name: c.Entry.Name, Selector: c.Entry.Selector, Protocol: c.Entry.Protocol,
			From: fleetfile.Values{}, To: fleetfile.Values{}, DryRun: dryRun,
		}
		for _, f := range c.Fields {
			o.From[f.Key], o.To[f.Key] = f.From, f.To
		}
		if err := encoder.Encode(o); err != nil {
			return err
		}
	}

	return nil
}
