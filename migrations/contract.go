package migrations

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Contract is the contract version of the schema that this program's own
// migrations make. A migration that changes what programs may rely on raises it,
// by one from release to release.
const Contract = 3

// The contract versions that this program works with: a release runs on the
// schema of its own version and of the next one, so that a fleet can be upgraded
// with tasks flowing: the schema first, then the sidecars.
//
// The next version isn't known yet. That this program will run on it is a promise
// of that version's migrations: they only add to what version Contract has, and
// take away what is no longer used one version later.
const (
	ContractMin = Contract
	ContractMax = Contract + 1
)

// Querier is what [CheckContract] needs of a pool, a connection or a transaction.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// CheckContract says whether this program and the schema sched of the database
// work together. It returns [ErrNoSchema], [ErrNoAccess], [ErrSchemaTooOld] or
// [ErrSchemaTooNew], each with what to do, or the database's own error.
func CheckContract(ctx context.Context, db Querier) error {
	var version int
	err := db.QueryRow(ctx, "SELECT sched.contract_version()").Scan(&version)
	var pgErr *pgconn.PgError
	switch {
	case err == nil:
		return checkRange(version, ContractMin, ContractMax)
	case !errors.As(err, &pgErr):
		return fmt.Errorf("read the contract version of schema sched: %w", err)
	}
	switch pgErr.Code {
	case codeInvalidSchema, codeUndefinedFunction:
		return fmt.Errorf("%w in this database: run `sched migrate up` on it, or check that the DSN names the right database", ErrNoSchema)
	case codeInsufficientPrivilege:
		return fmt.Errorf("%w (%s): grant this login role the role for its task, e.g. `GRANT sched_sidecar TO …` for a sidecar", ErrNoAccess, pgErr.Message)
	}
	return fmt.Errorf("read the contract version of schema sched: %w", err)
}

// checkRange compares the contract version of a schema with what a program
// works with.
func checkRange(version, lowest, highest int) error {
	if version < lowest {
		return fmt.Errorf("%w: its contract version is %d and this program needs %d or later: run `sched migrate up` of this program's release first",
			ErrSchemaTooOld, version, lowest)
	}
	if version > highest {
		return fmt.Errorf("%w: its contract version is %d and this program knows versions up to %d: upgrade this program",
			ErrSchemaTooNew, version, highest)
	}
	return nil
}
