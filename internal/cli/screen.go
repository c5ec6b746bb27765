package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// screen is where a command's answer goes, and how.
type screen struct {
	out   io.Writer // the answer
	err   io.Writer // all else
	json  bool      // for programs: one object a line, nothing cut
	width int       // of the terminal; 0: not one, nothing is cut
	color bool
	in    io.Reader
	ask   bool // in is a terminal: somebody is there to answer
	live  bool // standard error is a terminal: progress can be shown
}

func newScreen(cmd *cobra.Command, environ []string, asJSON bool) *screen {
	s := &screen{out: cmd.OutOrStdout(), err: cmd.ErrOrStderr(), json: asJSON}
	if f, ok := s.out.(*os.File); ok && !asJSON && term.IsTerminal(int(f.Fd())) {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			s.width = width
		}
		s.color = !slices.ContainsFunc(environ, isNoColor)
	}
	s.in = cmd.InOrStdin()
	s.ask = isTerminal(s.in)
	if f, ok := s.err.(*os.File); ok {
		s.live = term.IsTerminal(int(f.Fd()))
	}

	return s
}

// isNoColor reports whether a variable asks for text without colours, as
// no-color.org has it.
func isNoColor(variable string) bool {
	const name = "NO_COLOR="

	return len(variable) > len(name) && variable[:len(name)] == name || variable == "TERM=dumb"
}

// object prints one object for a program.
func (s *screen) object(value any) error {
	line, ok := value.(json.RawMessage)
	if ok { // from the database, which may have put newlines between
		var compact bytes.Buffer
		if err := json.Compact(&compact, line); err != nil {
			return err
		}
		line = compact.Bytes()
	} else {
		var err error
		if line, err = json.Marshal(value); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(s.out, "%s\n", line)

	return err
}

// say prints a sentence for a person.
func (s *screen) say(format string, args ...any) error {
	_, err := fmt.Fprintf(s.out, format+"\n", args...)

	return err
}

// note prints a sentence that is no part of the answer.
func (s *screen) note(format string, args ...any) {
	fmt.Fprintf(s.err, format+"\n", args...)
}
