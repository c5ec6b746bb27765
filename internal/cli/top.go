package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/sched-sidecar/sched/internal/operator"
)

const (
	topInterval    = time.Second
	topIntervalMin = 100 * time.Millisecond
	topIntervalMax = time.Hour
	topLimit       = 200
	topTimeout     = 10 * time.Second // of a look
)

// What a terminal is told before, between and after pictures: a screen of its own,
// without cursor, which leaves the user's as it was.
const (
	topEnter   = "\x1b[?1049h\x1b[?25l"
	topLeave   = "\x1b[?25h\x1b[?1049l"
	topHome    = "\x1b[H"
	topLineEnd = "\x1b[K"
	topRest    = "\x1b[J"
)

func topCommand(environ []string) *cobra.Command {
	var o operateOptions
	var once bool
	interval := topInterval
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch workers, slots, forecasts and pressure",
		Long: `Shows the fleet, and again each --interval until Ctrl-C: workers there are and should be;
of each worker what it runs, its slots and its ceiling, the tasks a second that come
(ARRIVE) and that it expects (EXPECT), the joint score with its parts cpu, memory and
waiting tasks, and what decided about its slots last; and the queues with their pressure.
What isn't measured is "-": forecasts and scores need "elastic: on" or "observe".
While the database can't be read the last look stays, with a line that says why.

With --once, or where standard output is no terminal, it is shown once. With --json there is
an object each time, with fleet, workers and queues.`,
		Args: noArgs,
	}
	o.add(cmd)
	cmd.Flags().BoolVar(&once, "once", false, "show it once")
	cmd.Flags().DurationVar(&interval, "interval", interval, "time between two looks")
	work := o.run(environ, func(ctx context.Context, op *operator.Operator, s *screen, _ []string) error {
		return watchTop(ctx, op, s, once, interval)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if interval < topIntervalMin || interval > topIntervalMax {
			return &usageError{fmt.Errorf("--interval %s: use %s to %s", interval, topIntervalMin, topIntervalMax)}
		}

		return work(cmd, args)
	}

	return cmd
}

// topSource is where the fleet is read: [operator.Operator].
type topSource interface {
	Top(ctx context.Context, limit int) (operator.Top, error)
}

// watchTop shows the fleet again and again, until ctx ends, which is how it is meant
// to end. Only a first look that fails is an error.
func watchTop(ctx context.Context, source topSource, s *screen, once bool, interval time.Duration) (err error) {
	terminal := s.width > 0 && !s.json
	once = once || !terminal && !s.json
	top, err := look(ctx, source)
	switch {
	case ctx.Err() != nil && !once:
		return nil
	case err != nil:
		return err
	}
	if terminal && !once {
		if _, err := io.WriteString(s.out, topEnter); err != nil {
			return err
		}
		defer func() {
			_, leaveErr := io.WriteString(s.out, topLeave)
			err = errors.Join(err, leaveErr)
		}()
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for trouble := error(nil); ; {
		if err := showTop(s, top, trouble, once); err != nil || once {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		next, err := look(ctx, source)
		if ctx.Err() != nil {
			return nil
		}
		if trouble = err; err == nil {
			top = next
		}
	}
}

// look reads the fleet once.
func look(ctx context.Context, source topSource) (operator.Top, error) {
	ctx, cancel := context.WithTimeout(ctx, topTimeout)
	defer cancel()

	return source.Top(ctx, topLimit)
}

// showTop prints the last look, over the one before where it goes on. With trouble it
// is an old one, and that is said.
func showTop(s *screen, top operator.Top, trouble error, once bool) error {
	if s.json {
		if trouble != nil {
			_, err := fmt.Fprintf(s.err, "not read, trying again: %s\n", clean(trouble.Error()))
			return err
		}

		return s.object(top)
	}
	if once {
		return writeLines(s.out, topLines(top, s.width, 0, s.color), "")
	}
	width, height := s.size()
	if _, err := io.WriteString(s.out, topHome); err != nil {
		return err
	}
	room := height - 1
	var below []string
	if trouble != nil {
		line := cut(clean("not read since, trying again: "+trouble.Error()), width)
		if s.color {
			line = red.paint(line)
		}
		below = []string{line}
		room--
	}
	if err := writeLines(s.out, append(topLines(top, width, room, s.color), below...), topLineEnd); err != nil {
		return err
	}
	_, err := io.WriteString(s.out, topRest)

	return err
}

func writeLines(w io.Writer, lines []string, end string) error {
	for _, line := range lines {
		if _, err := io.WriteString(w, line+end+"\n"); err != nil {
			return err
		}
	}

	return nil
}

// size is that of the terminal now: people move windows.
func (s *screen) size() (width, height int) {
	const usual = 24
	if f, ok := s.out.(*os.File); ok {
		if width, height, err := term.GetSize(int(f.Fd())); err == nil && width > 0 && height > 1 {
			return width, height
		}
	}

	return s.width, usual
}
