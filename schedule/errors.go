package schedule

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// ErrInvalid is returned by [Parse] for an expression or a time zone that says nothing.
var ErrInvalid = errors.New("invalid schedule")

// codeRejected is enqueue's answer at the door of a queue that rejects.
const codeRejected = "SC429"

// hasCode says whether Postgres refused with one of the codes, or classes of them.
func hasCode(err error, codes ...string) (*pgconn.PgError, bool) {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return nil, false
	}
	for _, code := range codes {
		if len(pgErr.Code) >= len(code) && pgErr.Code[:len(code)] == code {
			return pgErr, true
		}
	}
	return nil, false
}
