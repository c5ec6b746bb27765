package config

import (
	"fmt"
	"strings"
)

// Problem is one thing that is wrong with a configuration.
type Problem struct {
	Key    string // slots.ceiling; empty when no key is meant
	Value  string // as given, secrets redacted; empty when there is none to show
	Source string // sched.yaml:12, SCHED_SLOTS_CEILING, --slots-ceiling; empty: unknown
	What   string // what is wrong, with what is allowed
	Advice string // what to do about it
}

func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.Key)
	if p.Value != "" {
		fmt.Fprintf(&b, " = %s", p.Value)
	}
	if p.Source != "" {
		if b.Len() > 0 {
			fmt.Fprintf(&b, " (%s)", p.Source)
		} else {
			b.WriteString(p.Source)
		}
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	b.WriteString(p.What)
	if p.Advice != "" {
		b.WriteString("; " + p.Advice)
	}

	return b.String()
}

// InvalidError is every problem of a configuration. [Load] and
// [Sidecar.Validate] return it.
type InvalidError struct {
	Problems []Problem
}

func (e *InvalidError) Error() string {
	if len(e.Problems) == 1 {
		return "config: " + e.Problems[0].String()
	}

	var b strings.Builder
	fmt.Fprintf(&b, "config: %d problems", len(e.Problems))
	for _, p := range e.Problems {
		b.WriteString("\n  " + p.String())
	}

	return b.String()
}

// invalid returns the problems as an error, or nil when there are none.
func invalid(problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}

	return &InvalidError{Problems: problems}
}
