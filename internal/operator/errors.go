package operator

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

var (
	// ErrNotFound is returned when a task, worker, queue or batch that was named
	// does not exist.
	ErrNotFound = errors.New("not found")
	// ErrInvalid is returned when a filter, cursor or line can't be understood.
	ErrInvalid = errors.New("invalid")
)

// SQLSTATEs that this package tells apart.
const (
	codeNotFound          = "SC404"
	codeConflict          = "SC410"
	codeRejected          = "SC429"
	codeRunning           = "SC423"
	codeInvalidArgument   = "22023"
	codeTooLarge          = "54000"
	codeSerialization     = "40001"
	codeDeadlock          = "40P01"
	codeLockNotAvailable  = "55P03"
	codeInvalidSchema     = "3F000"
	codeUndefinedTable    = "42P01"
	codeUndefinedColumn   = "42703"
	codeUndefinedFunction = "42883"
	codeNoPrivilege       = "42501"
	classData             = "22"
	classShutdown         = "57P"
)

// databaseError is an answer of the server's that says no, with its hint.
type databaseError struct {
	text  string
	cause error
}

func (e *databaseError) Error() string { return e.text }
func (e *databaseError) Unwrap() error { return e.cause }

// translate makes an error of the database one for people. What says what was
// being done.
func translate(what string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("%s: %w", what, ErrNotFound)
	}
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return fmt.Errorf("%s: %w", what, err)
	}
	text := what + ": " + stripFunction(pgErr.Message)
	if pgErr.Detail != "" {
		text += "; detail: " + pgErr.Detail
	}
	hint := pgErr.Hint
	switch pgErr.Code {
	case codeInvalidSchema, codeUndefinedTable, codeUndefinedColumn, codeUndefinedFunction:
		hint = "run 'sched migrate up' on this database, or check that the DSN names the right one"
	case codeNoPrivilege:
		hint = "log in as a member of sched_sidecar or sched_owner; the views alone need sched_auditor"
	}
	if hint != "" {
		text += "; hint: " + hint
	}
	if pgErr.Code == codeNotFound {
		return &databaseError{text: text, cause: errors.Join(ErrNotFound, err)}
	}
	return &databaseError{text: text + " (SQLSTATE " + pgErr.Code + ")", cause: err}
}

// stripFunction drops the name of the SQL function that a message begins with:
// what was being done is said already.
func stripFunction(message string) string {
	if name, rest, found := strings.Cut(message, ": "); found && strings.HasPrefix(name, "sched.") && !strings.Contains(name, " ") {
		return rest
	}
	return message
}

// sqlState is the SQLSTATE of an error, or nothing.
func sqlState(err error) string {
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pgErr.Code
	}
	return ""
}
