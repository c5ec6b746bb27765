package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// confirm asks a person whether to go on.
func confirm(ctx context.Context, in io.Reader, out io.Writer, question string) error {
	fmt.Fprint(out, question)
	// Nobody can end a read from a terminal; the goroutine ends with the process.
	type answer struct {
		text string
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		text, err := bufio.NewReader(in).ReadString('\n')
		answers <- answer{text, err}
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case a := <-answers:
		if a.err != nil && !errors.Is(a.err, io.EOF) {
			return a.err
		}
		switch strings.ToLower(strings.TrimSpace(a.text)) {
		case "y", "yes":
			return nil
		default:
			return errNotConfirmed
		}
	}
}
