package cli

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sched-sidecar/sched/internal/operator"
	"github.com/sched-sidecar/sched/sql/audit"
)

func auditCommand(environ []string) *cobra.Command {
	return group("audit", "Ask what ran, what failed, who did what, and why",
		auditListCommand(environ),
		auditRunCommand(environ),
	)
}

// auditEntry is a question as a program gets it.
type auditEntry struct {
	Name   string       `json:"name"`
	Title  string       `json:"title"`
	Doc    string       `json:"description"`
	Bounds string       `json:"bounds"`
	Params []auditParam `json:"parameters"`
}

type auditParam struct {
	Name     string     `json:"name"`
	Type     audit.Type `json:"type"`
	Default  string     `json:"default,omitempty"`
	Required bool       `json:"required"`
	Doc      string     `json:"description"`
}

func auditListCommand(environ []string) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the questions that can be asked",
		Long: `Lists the questions that "sched audit run" answers, with their parameters and defaults. With
--json each line is a question with what its answer has, its parameters, and what it reads
at most.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			questions, err := audit.Questions()
			if err != nil {
				return err
			}
			s := newScreen(cmd, environ, asJSON)
			if asJSON {
				return objects(s, questions, questionJSON)
			}
			t := table{columns: []column{{title: "NAME"}, {title: "QUESTION", flexible: true}, {title: "PARAMETERS", flexible: true}}}
			for _, q := range questions {
				params := make([]string, len(q.Params))
				for i, p := range q.Params {
					params[i] = p.Name
					if p.Default != "" {
						params[i] += "=" + p.Default
					}
				}
				t.add(nil, q.Name, q.Title, strings.Join(params, " "))
			}

			return t.write(s.out, s.width, s.color)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line, for programs")

	return cmd
}

func questionJSON(q audit.Question) json.RawMessage {
	entry := auditEntry{Name: q.Name, Title: q.Title, Doc: q.Doc, Bounds: q.Bounds}
	for _, p := range q.Params {
		entry.Params = append(entry.Params, auditParam{Name: p.Name, Type: p.Type, Default: p.Default, Required: p.Required, Doc: p.Doc})
	}
	line, _ := json.Marshal(entry) // strings and booleans

	return line
}

func auditRunCommand(environ []string) *cobra.Command {
	var o operateOptions
	var params []string
	var asCSV bool
	cmd := &cobra.Command{
		Use:   "run NAME [--param KEY=VALUE]…",
		Short: "Answer one of the questions",
		Long: `Answers one of the questions that "sched audit list" lists. A parameter that is not given has
its default; times are written like 2030-01-31T12:00:00Z, or so long ago (2h, 7d). With
--json each line is a row, with --csv there is a line with the names before them. It needs
the rights of the role sched_auditor, and nothing else.`,
		Args: exactArgs("NAME"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return auditNames(), cobra.ShellCompDirectiveNoFileComp
		},
	}
	o.add(cmd)
	cmd.Flags().StringArrayVarP(&params, "param", "p", nil, "a parameter as KEY=VALUE; may be repeated")
	cmd.Flags().BoolVar(&asCSV, "csv", false, "print comma-separated values with a header")
	connected := o.run(environ, func(ctx context.Context, op *operator.Operator, s *screen, args []string) error {
		return runAudit(ctx, op, s, args[0], params, asCSV)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		// What is wrong with the question is said before anybody connects.
		if err := notBoth(cmd, "json", "csv"); err != nil {
			return err
		}
		q, err := question(args[0])
		if err != nil {
			return err
		}
		if _, err := bindAudit(q, params, time.Now()); err != nil {
			return err
		}

		return connected(cmd, args)
	}

	return cmd
}

func runAudit(ctx context.Context, op *operator.Operator, s *screen, name string, params []string, asCSV bool) error {
	q, err := question(name)
	if err != nil {
		return err
	}
	now, err := op.Now(ctx)
	if err != nil {
		return err
	}
	values, err := bindAudit(q, params, now)
	if err != nil {
		return err
	}
	if s.json {
		rows, err := op.AuditJSON(ctx, q, values)
		if err != nil {
			return err
		}

		return objects(s, rows, func(row json.RawMessage) json.RawMessage { return row })
	}
	answer, err := op.Audit(ctx, q, values)
	if err != nil {
		return err
	}

	return showAnswer(s, answer, asCSV)
}

func auditNames() []string {
	questions, _ := audit.Questions() // read by a test
	names := make([]string, len(questions))
	for i, q := range questions {
		names[i] = q.Name
	}

	return names
}

func question(name string) (audit.Question, error) {
	questions, err := audit.Questions()
	if err != nil {
		return audit.Question{}, err
	}
	i := slices.IndexFunc(questions, func(q audit.Question) bool { return q.Name == name })
	if i < 0 {
		return audit.Question{}, &usageError{fmt.Errorf("there is no audit called %q: there are %s", name, strings.Join(auditNames(), ", "))}
	}

	return questions[i], nil
}

// bindAudit reads parameters written as KEY=VALUE, and fills in the others.
func bindAudit(q audit.Question, params []string, now time.Time) (map[string]any, error) {
	values := make(map[string]string, len(params))
	for _, param := range params {
		key, value, found := strings.Cut(param, "=")
		if !found {
			return nil, &usageError{fmt.Errorf("--param %s: write it as KEY=VALUE", param)}
		}
		if _, twice := values[key]; twice {
			return nil, &usageError{fmt.Errorf("--param %s is given twice", key)}
		}
		values[key] = value
	}
	args, err := q.Bind(values, func(text string) (time.Time, error) {
		if text == "now" {
			return now, nil
		}
		var v momentValue
		if err := v.Set(text); err != nil {
			return time.Time{}, err
		}

		return v.at(now), nil
	})
	if err != nil {
		return nil, &usageError{err}
	}

	return args, nil
}

func showAnswer(s *screen, answer operator.Answer, asCSV bool) error {
	if asCSV {
		w := csv.NewWriter(s.out)
		if len(answer.Columns) > 0 {
			if err := w.Write(answer.Columns); err != nil {
				return err
			}
		}
		if err := w.WriteAll(answer.Rows); err != nil {
			return err
		}

		return w.Error()
	}
	if len(answer.Rows) == 0 {
		s.note("nothing")

		return nil
	}
	var t table
	for _, name := range answer.Columns {
		t.columns = append(t.columns, column{title: strings.ToUpper(name), flexible: true, optional: true})
	}
	for _, row := range answer.Rows {
		t.add(nil, row...)
	}

	return t.write(s.out, s.width, s.color)
}
