package jobs_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq" //nolint:depguard // tested: apps may use it
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/jobs"
)

// refusingDB answers every call with one error.
type refusingDB struct{ err error }

func (r refusingDB) QueryRow(context.Context, string, ...any) pgx.Row { return r }
func (r refusingDB) Scan(...any) error                                { return r.err }

// stateError is a driver's error that has nothing but its SQLSTATE.
type stateError string

func (e stateError) Error() string    { return "no more than a state" }
func (e stateError) SQLState() string { return string(e) }

func TestServerErrors(t *testing.T) {
	t.Parallel()

	sentinels := []error{
		jobs.ErrInvalidArgument, jobs.ErrTooLarge, jobs.ErrTaskNotFound,
		jobs.ErrLeaseLost, jobs.ErrUniqueConflict, jobs.ErrTaskRunning,
	}
	for state, want := range map[string]error{
		"22023": jobs.ErrInvalidArgument,
		"22P05": jobs.ErrInvalidArgument, // \u0000 in JSON
		"22008": jobs.ErrInvalidArgument, // time out of range
		"54000": jobs.ErrTooLarge,
		"SC404": jobs.ErrTaskNotFound,
		"SC409": jobs.ErrLeaseLost,
		"SC410": jobs.ErrUniqueConflict,
		"SC423": jobs.ErrTaskRunning,
		"40001": nil,
	} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			for _, cause := range []error{
				&pgconn.PgError{Code: state, Message: "the message", Detail: "the detail", Hint: "the hint"},
				&pq.Error{Code: pq.ErrorCode(state), Message: "the message", Detail: "the detail", Hint: "the hint"},
			} {
				_, err := jobs.Cancel(t.Context(), refusingDB{cause}, 1)
				require.ErrorIs(t, err, cause, "the driver's error stays in reach")
				for _, sentinel := range sentinels {
					require.Equal(t, errors.Is(want, sentinel), errors.Is(err, sentinel), "%v is %v", err, sentinel)
				}
				for _, part := range []string{"sched.cancel: ", "the message", "detail: the detail", "hint: the hint", "SQLSTATE " + state} {
					require.ErrorContains(t, err, part)
				}
			}

			_, err := jobs.Cancel(t.Context(), refusingDB{stateError(state)}, 1)
			require.ErrorContains(t, err, "no more than a state")
			require.Equal(t, want != nil, errors.Is(err, want))
		})
	}
}

func TestServerErrorsOfAnUnpreparedDatabase(t *testing.T) {
	t.Parallel()

	for state, hint := range map[string]string{
		"3F000": "sched migrate up",
		"42883": "sched migrate up",
		"42501": "sched_producer",
	} {
		_, err := jobs.Enqueue(t.Context(), refusingDB{&pgconn.PgError{Code: state}}, note{})
		require.ErrorContains(t, err, hint)

		_, err = jobs.Enqueue(t.Context(), refusingDB{&pgconn.PgError{Code: state, Hint: "the server's own"}}, note{})
		require.ErrorContains(t, err, "the server's own")
		require.NotContains(t, err.Error(), hint)
	}
}

func TestFunctionIsNamedOnce(t *testing.T) {
	t.Parallel()

	_, err := jobs.Enqueue(t.Context(), refusingDB{&pgconn.PgError{
		Code: "22023", Message: "sched.enqueue: priority 9 is not between 1 and 4", Hint: "leave priority out for 1",
	}}, note{})
	require.EqualError(t, err, "sched.enqueue: invalid argument: priority 9 is not between 1 and 4; hint: leave priority out for 1 (SQLSTATE 22023)")
}

func TestOtherErrorsPassThrough(t *testing.T) {
	t.Parallel()

	db := refusingDB{io.ErrUnexpectedEOF}
	_, err := jobs.Enqueue(t.Context(), db, note{})
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.ErrorContains(t, err, "sched.enqueue: ")

	_, err = jobs.EnqueueMany(t.Context(), db, []jobs.Task{{Args: note{}}})
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.ErrorContains(t, err, "sched.enqueue_many: ")
}
