package execapp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/sidecar/answer"
	"github.com/sched-sidecar/sched/sidecar/dispatch"
)

// Exit statuses that mean something, from BSD's sysexits.h.
const (
	exitCancel = 65 // EX_DATAERR: the task is hopeless
	exitRetry  = 75 // EX_TEMPFAIL: try again later
)

const (
	errorBytes  = 2 << 10
	stderrBytes = 8 << 10 // of its end are kept
)

// Config says what to run.
type Config struct {
	// Command and its arguments. Without a slash the command is looked up in PATH.
	Command []string
	// MaxOutputBytes bounds a task's output. A longer one is dropped, and said.
	MaxOutputBytes int64
	// KillAfter is how long a command that is told to end may take. Default: 5 s.
	KillAfter time.Duration
	Logger    *slog.Logger
}

// Dispatcher runs a command for each task. It is safe for concurrent use.
type Dispatcher struct {
	config  Config
	environ []string
}

var _ dispatch.Dispatcher = (*Dispatcher)(nil)

// New returns a dispatcher. It fails when no command is given.
func New(config Config) (*Dispatcher, error) {
	if len(config.Command) == 0 || config.Command[0] == "" {
		return nil, errors.New("app.command is empty: name the command that works on a task")
	}
	if config.KillAfter == 0 {
		config.KillAfter = 5 * time.Second
	}
	if config.MaxOutputBytes == 0 {
		config.MaxOutputBytes = 1 << 20
	}
	environ := os.Environ()
	inherited := environ[:0:0]
	for _, variable := range environ {
		// The sidecar's own configuration, its DSN with a password among it, is none of
		// the command's business, and neither is a trace that it may run in itself.
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, "SCHED_") && !slices.Contains(traceHeaders(), strings.ToLower(name)) {
			inherited = append(inherited, variable)
		}
	}
	return &Dispatcher{config: config, environ: inherited}, nil
}

// Probe reports whether the command is there and may be run.
func (d *Dispatcher) Probe(context.Context) error {
	if _, err := exec.LookPath(d.config.Command[0]); err != nil {
		return fmt.Errorf("the app's command can't be run: %w", err)
	}
	return nil
}

// Dispatch runs the command for the task and returns what its end says.
func (d *Dispatcher) Dispatch(ctx context.Context, task *dispatch.Task) jobs.Outcome {
	stdout := &head{limit: d.config.MaxOutputBytes}
	stderr := &tail{limit: stderrBytes}
	command := exec.CommandContext(ctx, d.config.Command[0], d.config.Command[1:]...)
	command.Env = slices.Concat(d.environ, variables(task))
	command.Stdin = bytes.NewReader(task.Args)
	command.Stdout, command.Stderr = stdout, stderr
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGTERM) }
	command.WaitDelay = d.config.KillAfter
	begun := time.Now()
	if err := command.Start(); err != nil {
		if ctx.Err() != nil {
			return dispatch.Interrupted(context.Cause(ctx), time.Since(begun), "an end of the command")
		}
		return jobs.Outcome{
			Kind: jobs.OutcomeHandBack, AppDown: true, Error: answer.Text(fmt.Sprintf("the app's command can't be run: %v", err), errorBytes),
		}
	}
	group := command.Process.Pid
	err := command.Wait()
	_ = syscall.Kill(-group, syscall.SIGKILL) // what it left behind; mostly nothing
	if ctx.Err() != nil && (err != nil || command.ProcessState.ExitCode() != 0) {
		return dispatch.Interrupted(context.Cause(ctx), time.Since(begun), "an end of the command")
	}
	return d.outcome(task, command.ProcessState, stdout, stderr, err)
}

// outcome is the table of exit statuses in docs/exec.md.
func (d *Dispatcher) outcome(task *dispatch.Task, state *os.ProcessState, stdout *head, stderr *tail, err error) jobs.Outcome {
	if state.ExitCode() == 0 {
		return d.completed(task, stdout)
	}
	text := "the command ended with " + state.String()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		text += " (" + err.Error() + ")"
	}
	if said := stderr.String(); said != "" {
		text += ": " + said
	}
	kind := jobs.OutcomeRetry
	if state.ExitCode() == exitCancel {
		kind = jobs.OutcomeCancel
	}
	return jobs.Outcome{Kind: kind, Error: answer.Text(text, errorBytes)}
}

func (d *Dispatcher) completed(task *dispatch.Task, stdout *head) jobs.Outcome {
	if stdout.dropped {
		d.config.Logger.Warn("completed a task without its output: it is over the limit",
			task.LogAttrs(), slog.Int64("max_response_bytes", d.config.MaxOutputBytes))
		return jobs.Outcome{Kind: jobs.OutcomeComplete}
	}
	output := bytes.TrimSpace(stdout.data)
	// A command may print what it likes; only JSON is output.
	if len(output) == 0 || answer.Output(output) != nil {
		return jobs.Outcome{Kind: jobs.OutcomeComplete}
	}
	return jobs.Outcome{Kind: jobs.OutcomeComplete, Output: output}
}

// variables is what a command learns of its task beside the args.
func variables(task *dispatch.Task) []string {
	variables := []string{
		"SCHED_TASK_ID=" + strconv.FormatInt(task.ID, 10),
		"SCHED_KIND=" + task.Kind,
		"SCHED_QUEUE=" + task.Queue,
		"SCHED_ATTEMPT=" + strconv.Itoa(task.Attempt),
		"SCHED_MAX_ATTEMPTS=" + strconv.Itoa(task.MaxAttempts),
		"SCHED_PRIORITY=" + strconv.Itoa(task.Priority),
		"SCHED_LEASE=" + task.Lease.String(),
		"SCHED_BATCH=" + task.Batch,
		"SCHED_DEADLINE=",
	}
	if !task.Deadline.IsZero() {
		variables[len(variables)-1] += task.Deadline.UTC().Format(time.RFC3339Nano)
	}
	for name, value := range task.Headers {
		// Values were checked when enqueueing; a NUL would end the variable.
		assignment := variableName(name) + "=" + strings.ReplaceAll(value, "\x00", "")
		variables = append(variables, "SCHED_HEADER_"+assignment)
		if slices.Contains(traceHeaders(), strings.ToLower(name)) {
			variables = append(variables, assignment)
		}
	}
	return variables
}

// traceHeaders are those that are variables of their own, by which OpenTelemetry passes
// the context of a trace to a process.
func traceHeaders() []string { return []string{"traceparent", "tracestate", "baggage"} }

// variableName makes a header's name one of a variable: upper case, _ for what
// is neither a letter nor a digit.
func variableName(header string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		default:
			return '_'
		}
	}, header)
}
