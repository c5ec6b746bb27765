package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sched-sidecar/sched/internal/config"
	"github.com/sched-sidecar/sched/internal/doctor"
)

// listenVariable is the sidecar's database.listen_url.
const listenVariable = "SCHED_DATABASE_LISTEN_URL"

// doctorError says that checks failed. What failed has been printed.
type doctorError struct {
	failed, of int
}

func (e *doctorError) Error() string {
	return fmt.Sprintf("doctor: %d of %d findings are failures", e.failed, e.of)
}

func doctorCommand(environ []string) *cobra.Command {
	var flag, listen string
	var asJSON bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what is wrong with the database and the fleet, and say what to do",
		Long: `Looks at the database, the schema, who leads, and the workers, and says what is
wrong and what to do about it. It changes nothing. Warnings don't count as a
failure; what the login role may not look at is skipped and said.`,
		Args: noArgs,
	}
	fs := cmd.Flags()
	fs.StringVar(&flag, "dsn", "", "Postgres connection string (SCHED_DATABASE_URL, DATABASE_URL, PG*)")
	fs.StringVar(&listen, "listen-dsn", "", "connection string for notifications, where --dsn leads to a pooler ("+listenVariable+")")
	fs.BoolVar(&asJSON, "json", false, "print one JSON object a finding")
	fs.DurationVar(&timeout, "timeout", 5*time.Second, "how long one check may take")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if timeout < time.Millisecond {
			return &usageError{fmt.Errorf("--timeout: %s is too short; 5s is well tried", timeout)}
		}
		dsn, err := config.LoadDSN(flag, environ)
		if err != nil {
			return err
		}
		if listen == "" {
			listen = variable(environ, listenVariable)
		}
		findings, err := doctor.Run(cmd.Context(), doctor.Options{DSN: dsn.Reveal(), ListenDSN: listen, Timeout: timeout})
		if err != nil {
			return err
		}
		write := writeFindings
		if asJSON {
			write = writeFindingsJSON
		}
		if err := write(cmd.OutOrStdout(), findings); err != nil {
			return err
		}

		return failures(findings)
	}

	return cmd
}

func failures(findings []doctor.Finding) error {
	failed := 0
	for _, f := range findings {
		if f.Level == doctor.Failed {
			failed++
		}
	}
	if failed == 0 {
		return nil
	}

	return &doctorError{failed, len(findings)}
}

// writeFindings prints a table, with what to do below each line that needs it.
func writeFindings(w io.Writer, findings []doctor.Finding) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "CHECK\tRESULT\tFINDING")
	for _, f := range findings {
		result := string(f.Level)
		if f.Level == doctor.Failed {
			result = "FAILED"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", f.Check, result, f.Message)
		if f.Advice != "" {
			fmt.Fprintf(table, "\t\t→ %s\n", f.Advice)
		}
	}

	return table.Flush()
}

func writeFindingsJSON(w io.Writer, findings []doctor.Finding) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false) // advice is SQL now and then
	for _, f := range findings {
		if err := encoder.Encode(f); err != nil {
			return err
		}
	}

	return nil
}

// variable returns the last value that the environment gives a name.
func variable(environ []string, name string) string {
	value := ""
	for _, entry := range environ {
		if text, found := strings.CutPrefix(entry, name+"="); found {
			value = text
		}
	}

	return value
}
