package jobs

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// apiError is an answer of the server's that says no.
type apiError struct {
	text     string
	sentinel error // nil when the SQLSTATE is none of the SQL API's own
	cause    error // the driver's error
}

func (e *apiError) Error() string { return e.text }

// Unwrap keeps both in reach: the sentinel for errors.Is, and the driver's
// error for who wants its other fields.
func (e *apiError) Unwrap() []error {
	if e.sentinel == nil {
		return []error{e.cause}
	}
	return []error{e.sentinel, e.cause}
}

// serverError translates a driver's error at the edge. Function is the SQL
// function that was called.
func serverError(function string, err error) error {
	answer, ok := readAnswer(err)
	if !ok {
		return fmt.Errorf("%s: %w", function, err)
	}
	sentinel := sentinelOf(answer.state)
	if answer.hint == "" {
		answer.hint = hintFor(answer.state)
	}

	var text strings.Builder
	text.WriteString(function + ": ")
	if sentinel != nil {
		text.WriteString(sentinel.Error() + ": ")
	}
	// Some messages name the function themselves.
	text.WriteString(strings.TrimPrefix(answer.message, function+": "))
	if answer.detail != "" {
		text.WriteString("; detail: " + answer.detail)
	}
	if answer.hint != "" {
		text.WriteString("; hint: " + answer.hint)
	}
	text.WriteString(" (SQLSTATE " + answer.state + ")")
	return &apiError{text: text.String(), sentinel: sentinel, cause: err}
}

// answer is the part of an error response that is for people.
type answer struct {
	state, message, detail, hint string
}

func readAnswer(err error) (answer, bool) {
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		return answer{state: pgErr.Code, message: pgErr.Message, detail: pgErr.Detail, hint: pgErr.Hint}, true
	}
	// lib/pq's error, without importing lib/pq.
	var other interface {
		error
		SQLState() string
	}
	if !errors.As(err, &other) {
		return answer{}, false
	}
	a := answer{state: other.SQLState(), message: other.Error()}
	if fields, ok := other.(interface{ Get(field byte) string }); ok {
		// The protocol's own letters for the fields of an error response.
		a.message, a.detail, a.hint = fields.Get('M'), fields.Get('D'), fields.Get('H')
	}
	return a, true
}

func sentinelOf(state string) error {
	switch state {
	case "54000":
		return ErrTooLarge
	case "SC404":
		return ErrTaskNotFound
	case "SC409":
		return ErrLeaseLost
	case "SC410":
		return ErrUniqueConflict
	case "SC429":
		return ErrRejected
	case "SC423":
		return ErrTaskRunning
	}
	// The whole class "data exception", not only 22023: a JSON text with
	// \u0000 or a time out of range fails in the cast, before sched's checks.
	if strings.HasPrefix(state, "22") {
		return ErrInvalidArgument
	}
	return nil
}

// hintFor says what to do about the errors that come from a database which
// isn't set up for the caller.
func hintFor(state string) string {
	switch state {
	case "3F000", "42883": // invalid_schema_name, undefined_function
		return "run 'sched migrate up' on this database"
	case "42501": // insufficient_privilege
		return "grant this role the producer role (sched_producer by default)"
	default:
		return ""
	}
}
