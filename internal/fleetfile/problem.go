package fleetfile

import (
	"fmt"
	"strings"

	"github.com/sched-sidecar/sched/internal/config"
)

// InvalidError is everything that is wrong with a file. [Parse] returns it.
type InvalidError struct {
	Problems []config.Problem
}

func (e *InvalidError) Error() string {
	if len(e.Problems) == 1 {
		return e.Problems[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d problems", len(e.Problems))
	for _, p := range e.Problems {
		b.WriteString("\n  " + p.String())
	}
	return b.String()
}
