package migrations

import "errors"

var (
	// ErrNoSchema is returned by [CheckContract] when the database has no
	// schema sched, or one that is not finished.
	ErrNoSchema = errors.New("no sched schema")
	// ErrSchemaTooOld is returned by [CheckContract] when the schema must be
	// upgraded for this program.
	ErrSchemaTooOld = errors.New("sched schema is too old")
	// ErrSchemaTooNew is returned by [CheckContract] when this program must be
	// upgraded for the schema, and by [Up] when the schema has migrations that
	// this program doesn't know.
	ErrSchemaTooNew = errors.New("sched schema is too new")
	// ErrNoAccess is returned by [CheckContract] when the login role may not
	// use the schema.
	ErrNoAccess = errors.New("no access to the sched schema")
	// ErrForeignSchema is returned by [Up] when a schema sched exists that these
	// migrations did not make.
	ErrForeignSchema = errors.New("schema sched belongs to something else")
	// ErrRolesRefused is returned by [Up] when the login role may not create
	// or use the roles of [Options].
	ErrRolesRefused = errors.New("roles can't be set up")
	// ErrPooled is returned by all functions that take a connection string when it
	// leads through a pooler that gives each transaction another session.
	ErrPooled = errors.New("the connection leads through a pooler in transaction mode")
	// ErrLeftovers is returned by [Down] when something that the migrations did
	// not make keeps the schema or a role in place.
	ErrLeftovers = errors.New("something else still depends on it")
)

// SQLSTATEs that this package tells apart.
const (
	codeUniqueViolation        = "23505"
	codeDependentObjects       = "2BP01"
	codeInvalidSchema          = "3F000"
	codeInsufficientPrivilege  = "42501"
	codeDuplicateObject        = "42710"
	codeUndefinedFunction      = "42883"
	codeLockNotAvailable       = "55P03"
	codeConcurrentTupleChanges = "XX000"
)
