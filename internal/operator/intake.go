package operator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// DefaultChunk is how many tasks one transaction of an intake adds.
	DefaultChunk = 1000
	// MaxChunk bounds it: the server holds a chunk in memory several times over.
	MaxChunk = 100_000

	// chunkBytes ends a chunk early when its lines are long.
	chunkBytes = 8 << 20

	commitTimeout = 10 * time.Second

	// pressurePoll is how often an intake asks whether it may go on; the leader
	// computes pressure each second.
	pressurePoll = 500 * time.Millisecond
)

// Intake is how a stream of tasks is added.
type Intake struct {
	Defaults map[string]any // arguments of sched.enqueue for lines that leave them out
	Skip     int            // lines that are in already, from an earlier run
	Chunk    int            // tasks in one transaction; 0 means DefaultChunk
	Progress func(Taken)    // called after each transaction; may be nil

	// An intake waits while a queue that it fills is red, and Waiting is told
	// why, again when the reason changes, and with "" when it goes on. It may
	// be nil. With NoWait it doesn't look.
	NoWait  bool
	Waiting func(reason string)
}

// Taken is how far an intake got.
type Taken struct {
	Tasks int64 // tasks added; one whose unique key was taken counts too
	Lines int   // lines that are in, from the first on: what to skip next time
	Bytes int64 // of those lines
}

// LineError is a line that was refused.
type LineError struct {
	Line int // from 1
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }
func (e *LineError) Unwrap() error { return e.Err }

// UnsureError says that the connection broke during a commit.
type UnsureError struct {
	From, To int // lines that are in, or are not
	Err      error
}

func (e *UnsureError) Error() string {
	return fmt.Sprintf("the connection broke while lines %d to %d were being committed, which are in or are not: look for their tasks before going on: %v", e.From, e.To, e.Err)
}

func (e *UnsureError) Unwrap() error { return e.Err }

// EnqueueLines adds a task for each line of r, a JSON object with the names of
// sched.enqueue's arguments; empty lines are left out. Each chunk of lines is one
// transaction: none stays open while a long stream is read, which would keep the
// server from cleaning up behind the fleet, and an intake that broke off goes on
// where it ended. When it fails, all lines before the one at fault are in, and
// Taken says how far that is.
//
// It returns a [LineError] for a line that is no task, and an [UnsureError].
func (o *Operator) EnqueueLines(ctx context.Context, r io.Reader, in Intake) (Taken, error) {
	if in.Chunk == 0 {
		in.Chunk = DefaultChunk
	}
	t := intake{o: o, in: in, taken: Taken{Lines: in.Skip}}
	lines := newLineReader(r)
	for {
		l, err := lines.next()
		switch {
		case errors.Is(err, io.EOF):
			return t.taken, t.flush(ctx)
		case err == nil && (l.number <= in.Skip || len(l.text) == 0):
			continue
		case err == nil:
			l.text, err = prepareLine(l.text, in.Defaults)
		}
		if err != nil {
			if flushErr := t.flush(ctx); flushErr != nil { // the lines before it
				return t.taken, flushErr
			}
			return t.taken, &LineError{Line: lines.number, Err: err}
		}
		if err := t.add(ctx, l); err != nil {
			return t.taken, err
		}
	}
}

// intake is an intake under way.
type intake struct {
	o     *Operator
	in    Intake
	taken Taken
	lines []line // read, and not in yet
	bytes int    // of lines
}

func (t *intake) add(ctx context.Context, l line) error {
	t.lines = append(t.lines, l)
	t.bytes += len(l.text)
	if len(t.lines) < t.in.Chunk && t.bytes < chunkBytes {
		return nil
	}
	return t.flush(ctx)
}

// flush adds what was read. If a line of it is refused, those before it are added.
func (t *intake) flush(ctx context.Context) error {
	if len(t.lines) == 0 {
		return nil
	}
	lines := t.lines
	t.lines, t.bytes = t.lines[:0], 0
	refused, err := t.enqueue(ctx, lines)
	if err != nil && refused > 0 {
		if _, prefixErr := t.enqueue(ctx, lines[:refused]); prefixErr != nil {
			return prefixErr
		}
		t.advance(lines[:refused])
	}
	if err != nil {
		return err
	}
	t.advance(lines)
	return nil
}

// enqueue adds lines once no queue that they go to is red. Pressure may rise
// between the look and the call, and a queue that rejects then says so.
func (t *intake) enqueue(ctx context.Context, lines []line) (refused int, err error) {
	if t.in.NoWait {
		return t.o.enqueueChunk(ctx, lines)
	}
	told := ""
	tell := func(reason string) {
		if reason != told && t.in.Waiting != nil {
			t.in.Waiting(reason)
		}
		told = reason
	}
	ticker := time.NewTicker(pressurePoll)
	defer ticker.Stop()
	for {
		red, err := t.o.q.TaskPressure(ctx, joinLines(lines))
		if err != nil && !unreadable(err) { // a line that can't be read is found below
			return 0, translate("asking for the pressure", err)
		}
		if len(red) == 0 {
			refused, err = t.o.enqueueChunk(ctx, lines)
			if sqlState(err) != codeRejected {
				tell("")
				return refused, err
			}
			tell(refusal(err).Error())
		} else {
			tell(fmt.Sprintf("queue %s is red: %s", red[0].Queue, red[0].Reason))
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

func unreadable(err error) bool { return strings.HasPrefix(sqlState(err), classData) }

func (t *intake) advance(lines []line) {
	last := lines[len(lines)-1]
	t.taken.Tasks += int64(len(lines))
	t.taken.Lines, t.taken.Bytes = last.number, last.end
	if t.in.Progress != nil {
		t.in.Progress(t.taken)
	}
}

// enqueueChunk adds lines in one transaction. When it is a line that the server
// refuses, refused is its index.
func (o *Operator) enqueueChunk(ctx context.Context, lines []line) (refused int, err error) {
	tx, err := o.conn.Begin(ctx)
	if err != nil {
		return 0, translate("enqueue", err)
	}
	if _, err := o.q.WithTx(tx).TaskEnqueueMany(ctx, joinLines(lines)); err != nil {
		_ = tx.Rollback(ctx) // nothing was committed, whether it gets through or not
		at, found := o.findRefused(ctx, lines, err)
		if !found {
			return 0, fmt.Errorf("lines %d to %d: %w", lines[0].number, lines[len(lines)-1].number, translate("enqueue", err))
		}
		return at, &LineError{Line: lines[at].number, Err: refusal(err)}
	}
	// Whoever stops an intake wants to know how far it got: this isn't cut off.
	commitCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	err = tx.Commit(commitCtx)
	switch state := sqlState(err); {
	case err == nil:
		return 0, nil
	case errors.Is(err, pgx.ErrTxCommitRollback), state != "" && !strings.HasPrefix(state, classShutdown):
		return 0, translate("enqueue", err)
	default:
		return 0, &UnsureError{From: lines[0].number, To: lines[len(lines)-1].number, Err: err}
	}
}

func joinLines(lines []line) []byte {
	size := 2
	for _, l := range lines {
		size += len(l.text) + 1
	}
	b := bytes.NewBuffer(make([]byte, 0, size))
	b.WriteByte('[')
	for i, l := range lines {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(l.text)
	}
	b.WriteByte(']')
	return b.Bytes()
}

// elementName finds the element that a message of sched.enqueue_many names.
func elementName() *regexp.Regexp { return regexp.MustCompile(`tasks\[(\d+)\]: `) }

// findRefused says which line an error is about.
func (o *Operator) findRefused(ctx context.Context, lines []line, err error) (int, bool) {
	state := sqlState(err)
	if state != codeTooLarge && !strings.HasPrefix(state, classData) {
		return 0, false
	}
	if m := elementName().FindStringSubmatch(err.Error()); m != nil {
		at, convErr := strconv.Atoi(m[1])
		return at, convErr == nil && at < len(lines)
	}
	// The array itself was refused: Postgres holds no NUL character, no lone
	// surrogate and no number of any size. It didn't say where.
	for i, l := range lines {
		if _, err := o.q.JSONCheck(ctx, string(l.text)); err != nil {
			return i, true
		}
	}
	return 0, false
}

// refusal is the error of a line. The server counts elements within the chunk, and
// says so in its detail, which would only mislead here.
func refusal(err error) error {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return err
	}
	text := stripFunction(pgErr.Message)
	if at := elementName().FindStringIndex(text); at != nil {
		text = text[at[1]:]
	} else if pgErr.Detail != "" {
		text += "; detail: " + pgErr.Detail
	}
	if pgErr.Hint != "" {
		text += "; hint: " + pgErr.Hint
	}
	return &databaseError{text: text + " (SQLSTATE " + pgErr.Code + ")", cause: err}
}
