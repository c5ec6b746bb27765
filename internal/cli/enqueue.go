package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/sched-sidecar/sched/internal/operator"
	"github.com/sched-sidecar/sched/jobs"
)

// enqueueOptions are the flags of enqueue.
type enqueueOptions struct {
	operateOptions

	queue, protocol, uniqueKey, batch string
	priority, maxAttempts             int
	runAt                             string
	in, timeout                       spanValue
	selector, headers                 pairsValue

	file        string
	skip, chunk int
	noWait      bool
}

func enqueueCommand(environ []string) *cobra.Command {
	o := enqueueOptions{selector: pairsValue{}, headers: pairsValue{}}
	cmd := &cobra.Command{
		Use:   "enqueue KIND [ARGS_JSON] | enqueue --file FILE [KIND]",
		Short: "Add a task, or one for each line of a file",
		Long: `Adds a task and prints its id. With --unique-key it is the id of the unfinished task of
this kind that has the key, if there is one, and nothing is added.

With --file it adds a task for each line of a file, or of standard input for "-": a JSON
object with the names of sched.enqueue's arguments, such as
  {"kind": "send_mail", "args": {"to": 7}, "run_at": "2030-01-31T12:00:00Z"}
KIND and the other flags are for lines that leave them out. The file is read as a
stream, and each --chunk of lines is a transaction of its own: a long file is not all or
nothing. When a line is refused or the command is stopped, it says how many lines are
in, and --skip goes on behind them. While a queue that the lines go to is red, it says so,
waits, and goes on when the queue has drained. For all or nothing, call sched.enqueue_many.`,
		Args: o.check,
	}
	o.add(cmd)
	fs := cmd.Flags()
	fs.StringVar(&o.queue, "queue", "", "`name` of the queue (default the kind's, else default)")
	fs.IntVar(&o.priority, "priority", 0, "1 starts first, 4 last (default the kind's, else 1)")
	fs.StringVar(&o.runAt, "run-at", "", "not before this `time`")
	fs.Var(&o.in, "in", "not before so long from now")
	fs.Var(o.selector, "selector", "label that the worker must carry; again for one more")
	fs.StringVar(&o.protocol, "protocol", "", "`protocol` that the worker's app must speak: any, http, grpc, exec (default the kind's, else any)")
	fs.StringVar(&o.uniqueKey, "unique-key", "", "at most one unfinished task of this kind has the `key`")
	fs.IntVar(&o.maxAttempts, "max-attempts", 0, "attempts after which a failing task is discarded (default the kind's, else 25)")
	fs.Var(&o.timeout, "timeout", "time that an attempt may take (default the kind's, else the sidecar's)")
	fs.StringVar(&o.batch, "batch", "", "`name` of a batch, whose progress is counted together")
	fs.Var(o.headers, "header", "header that the app receives; again for one more")
	fs.StringVar(&o.file, "file", "", "add a task for each line of this `file`, or of standard input (-)")
	fs.IntVar(&o.skip, "skip", 0, "leave out so many lines at the beginning of the file")
	fs.BoolVar(&o.noWait, "no-wait", false, "go on while a queue that the lines fill is red")
	fs.IntVar(&o.chunk, "chunk", operator.DefaultChunk, "lines in a transaction")
	oneOf(cmd, "protocol", []string{jobs.ProtocolAny, jobs.ProtocolHTTP, jobs.ProtocolGRPC, jobs.ProtocolExec})
	cmd.RunE = o.run(environ, func(ctx context.Context, op *operator.Operator, s *screen, args []string) error {
		if o.file != "" {
			return o.enqueueFile(ctx, cmd, op, s, args)
		}

		return o.enqueueOne(ctx, cmd, op, s, args)
	})

	return cmd
}

func (o *enqueueOptions) check(cmd *cobra.Command, args []string) error {
	var wrong string
	switch {
	case o.file != "" && len(args) > 1:
		wrong = "with --file the args come from the lines"
	case o.file == "" && len(args) == 0:
		wrong = "needs a kind, or --file"
	case len(args) > 2:
		wrong = fmt.Sprintf("takes a kind and its args in one piece of JSON, got %q", args)
	case o.file == "" && (cmd.Flags().Changed("skip") || cmd.Flags().Changed("chunk") || o.noWait):
		wrong = "--skip, --chunk and --no-wait go with --file"
	case o.file != "" && o.uniqueKey != "":
		wrong = "--unique-key would make all lines one task; give each line a unique_key of its own"
	case o.runAt != "" && o.in.given:
		wrong = "takes --run-at or --in, not both"
	case o.skip < 0:
		wrong = fmt.Sprintf("--skip %d: use a number of lines", o.skip)
	case o.chunk < 1 || o.chunk > operator.MaxChunk:
		wrong = fmt.Sprintf("--chunk %d: use 1 to %d", o.chunk, operator.MaxChunk)
	case len(args) == 2 && !json.Valid([]byte(args[1])):
		wrong = fmt.Sprintf("args %q are no JSON; quote them for the shell: '{\"to\": 7}'", args[1])
	default:
		return nil
	}

	return &usageError{fmt.Errorf("%s%s; see %s --help", pathBelowRoot(cmd), wrong, cmd.CommandPath())}
}

// enqueueOne adds one task.
func (o *enqueueOptions) enqueueOne(ctx context.Context, cmd *cobra.Command, op *operator.Operator, s *screen, args []string) error {
	options, err := o.options(cmd)
	if err != nil {
		return err
	}
	var body json.RawMessage
	if len(args) == 2 {
		body = json.RawMessage(args[1])
	}
	id, err := jobs.Enqueue(ctx, op.Conn(), jobs.Raw(args[0], body), options...)
	if errors.Is(err, jobs.ErrInvalidArgument) {
		return &usageError{err}
	}
	if err != nil {
		return err
	}
	if s.json {
		return s.object(struct {
			ID int64 `json:"id"`
		}{id})
	}

	return s.say("%d", id)
}

// options are the task's: those that were given, so that each default is the
// database's.
func (o *enqueueOptions) options(cmd *cobra.Command) ([]jobs.Option, error) {
	var list []jobs.Option
	given := cmd.Flags().Changed
	for _, option := range []struct {
		flag   string
		option func() jobs.Option
	}{
		{"queue", func() jobs.Option { return jobs.Queue(o.queue) }},
		{"priority", func() jobs.Option { return jobs.Priority(o.priority) }},
		{"in", func() jobs.Option { return jobs.Delay(o.in.d) }},
		{"selector", func() jobs.Option { return jobs.Selector(o.selector) }},
		{"protocol", func() jobs.Option { return jobs.Protocol(o.protocol) }},
		{"unique-key", func() jobs.Option { return jobs.UniqueKey(o.uniqueKey) }},
		{"max-attempts", func() jobs.Option { return jobs.MaxAttempts(o.maxAttempts) }},
		{"timeout", func() jobs.Option { return jobs.Timeout(o.timeout.d) }},
		{"batch", func() jobs.Option { return jobs.Batch(o.batch) }},
		{"header", func() jobs.Option { return jobs.Headers(o.headers) }},
	} {
		if given(option.flag) {
			list = append(list, option.option())
		}
	}
	if given("run-at") {
		at, err := parseTime(o.runAt)
		if err != nil {
			return nil, &usageError{fmt.Errorf("--run-at: %w", err)}
		}
		list = append(list, jobs.RunAt(at))
	}

	return list, nil
}

// defaults are what lines of a file that leave it out get.
func (o *enqueueOptions) defaults(ctx context.Context, cmd *cobra.Command, op *operator.Operator, args []string) (map[string]any, error) {
	values := map[string]any{}
	for name, flag := range map[string]struct {
		flag  string
		value any
	}{
		"queue":        {"queue", o.queue},
		"priority":     {"priority", o.priority},
		"selector":     {"selector", o.selector},
		"protocol":     {"protocol", o.protocol},
		"max_attempts": {"max-attempts", o.maxAttempts},
		"timeout":      {"timeout", fmt.Sprintf("%d microseconds", o.timeout.d.Microseconds())},
		"batch":        {"batch", o.batch},
		"headers":      {"header", o.headers},
	} {
		if cmd.Flags().Changed(flag.flag) {
			values[name] = flag.value
		}
	}
	if len(args) == 1 {
		values["kind"] = args[0]
	}
	switch {
	case o.runAt != "":
		at, err := parseTime(o.runAt)
		if err != nil {
			return nil, &usageError{fmt.Errorf("--run-at: %w", err)}
		}
		values["run_at"] = at.Format(time.RFC3339Nano)
	case o.in.given:
		now, err := op.Now(ctx)
		if err != nil {
			return nil, err
		}
		values["run_at"] = now.Add(o.in.d).Format(time.RFC3339Nano)
	}

	return values, nil
}

// enqueueFile adds a task for each line.
func (o *enqueueOptions) enqueueFile(ctx context.Context, cmd *cobra.Command, op *operator.Operator, s *screen, args []string) error {
	var in io.ReadCloser
	size := int64(0)
	if o.file == "-" {
		in = untilDone(ctx, cmd.InOrStdin())
	} else {
		file, err := os.Open(o.file)
		if err != nil {
			return &usageError{fmt.Errorf("--file: %w", err)}
		}
		in = file
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			size = info.Size()
		}
	}
	defer in.Close()
	defaults, err := o.defaults(ctx, cmd, op, args)
	if err != nil {
		return err
	}

	bar := newProgress(s, "enqueued", size)
	taken, err := op.EnqueueLines(ctx, in, operator.Intake{
		Defaults: defaults, Skip: o.skip, Chunk: o.chunk,
		Progress: func(t operator.Taken) { bar.set(t.Tasks, t.Bytes) },
		NoWait:   o.noWait,
		Waiting: func(reason string) {
			bar.end()
			if reason == "" {
				s.note("going on")
			} else {
				s.note("waiting for it to drain (--no-wait does not): %s", reason)
			}
		},
	})
	bar.end()
	if err != nil {
		s.note("%s", howFar(taken))
	}
	if s.json {
		err = errors.Join(err, s.object(struct {
			Tasks int64 `json:"tasks"`
			Lines int   `json:"lines"`
		}{taken.Tasks, taken.Lines}))
	} else if err == nil {
		err = s.say("enqueued %s", plural(taken.Tasks, "task"))
	}

	return err
}

// howFar says what is in after an intake broke off, and how to go on.
func howFar(t operator.Taken) string {
	if t.Lines == 0 {
		return "nothing was enqueued"
	}

	return fmt.Sprintf("enqueued %s: lines 1 to %d are in; go on with --skip %d", plural(t.Tasks, "task"), t.Lines, t.Lines)
}

// untilDone reads from r until ctx ends, even while r has nothing to give: nobody
// can end a read from a terminal or a pipe. The goroutine ends with the input, or
// with the process.
func untilDone(ctx context.Context, r io.Reader) io.ReadCloser {
	out, in := io.Pipe()
	go func() {
		_, err := io.Copy(in, r)
		in.CloseWithError(err)
	}()
	// The writer's end: only from there does a reader get this error.
	context.AfterFunc(ctx, func() { in.CloseWithError(ctx.Err()) })

	return out
}
