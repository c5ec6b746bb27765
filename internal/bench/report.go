package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Report takes figures and shows them: as one JSON object a line, at once, or as
// a table at the end. What is said besides goes to notes.
type Report struct {
	out     io.Writer
	notes   io.Writer
	json    bool
	figures []Figure
	machine string // what was measured on
	started time.Time
}

// NewReport returns a report that writes figures to out and progress to notes.
func NewReport(out, notes io.Writer, asJSON bool) *Report {
	return &Report{out: out, notes: notes, json: asJSON, started: time.Now()}
}

// limit is one condition of a run: a bound in force, a setting, the machine.
type limit struct{ name, value string }

// machineLimits are the conditions that all scenarios have in common; a chart shows
// the first of them.
const (
	machineLimits = "machine"
	machineShown  = 6
)

// limits prints the conditions of a scenario: beside the table on the same
// output, but not among JSON lines.
func (r *Report) limits(scenario string, list []limit) error {
	parts := make([]string, len(list))
	for i, l := range list {
		parts[i] = l.name + " " + l.value
	}
	if scenario == machineLimits {
		r.machine = strings.Join(parts[:min(len(parts), machineShown)], ", ")
	}
	w := r.out
	if r.json {
		w = r.notes
	}
	if _, err := fmt.Fprintf(w, "%s: %s\n", scenario, strings.Join(parts, ", ")); err != nil {
		return fmt.Errorf("writing the limits: %w", err)
	}
	return nil
}

// note tells how the run goes. Nothing depends on its being read.
func (r *Report) note(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	_, _ = fmt.Fprintf(r.notes, "[%4.0fs] %s\n", time.Since(r.started).Seconds(), line)
}

// add takes figures.
func (r *Report) add(figures ...Figure) error {
	r.figures = append(r.figures, figures...)
	if !r.json {
		return nil
	}
	encoder := json.NewEncoder(r.out)
	encoder.SetEscapeHTML(false) // bounds have < and >
	for _, figure := range figures {
		if err := encoder.Encode(figure); err != nil {
			return fmt.Errorf("writing figure %s: %w", figure.Name, err)
		}
	}
	return nil
}

// Close prints the table, if there is one to print, and returns [ErrFellShort]
// with the names of the figures that missed their bounds.
func (r *Report) Close() error {
	if !r.json && len(r.figures) > 0 {
		if err := r.table(); err != nil {
			return err
		}
	}
	var short []string
	for _, figure := range r.figures {
		if !figure.OK {
			short = append(short, fmt.Sprintf("%s is %s, bound %s", figure.Name, number(figure.Value), figure.Bound))
		}
	}
	if len(short) > 0 {
		return fmt.Errorf("%w: %s", ErrFellShort, strings.Join(short, "; "))
	}
	return nil
}

func (r *Report) table() error {
	var text strings.Builder
	text.WriteString("figure\tvalue\tunit\tbound\tok\trounds\n")
	for _, f := range r.figures {
		ok := "yes"
		if !f.OK {
			ok = "NO"
		}
		fmt.Fprintf(&text, "%s\t%s\t%s\t%s\t%s\t%d\n", f.Name, number(f.Value), f.Unit, f.Bound, ok, f.Rounds)
	}
	w := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', 0)
	_, err := w.Write([]byte(text.String()))
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	return nil
}
