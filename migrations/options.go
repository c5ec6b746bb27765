package migrations

import (
	"fmt"
	"log/slog"
	"slices"
)

// Options change how the schema is migrated. The zero value is right for a login
// role that may create roles.
type Options struct {
	// NoRoles leaves roles, ownership and grants alone: everything then belongs
	// to the login role that migrates. For managed Postgres without CREATEROLE,
	// and where an administrator grants by hand.
	NoRoles bool

	// Roles names the roles to create and grant to. Empty names mean the
	// defaults.
	Roles RoleNames

	// DropRoles makes [Down] drop the roles too. Roles belong to the whole
	// cluster, so one that another database still uses stays, with an error.
	DropRoles bool

	// Logger receives what is done. Nil discards it.
	Logger *slog.Logger
}

// RoleNames names the four roles. None of them can log in: they are granted to
// login roles.
type RoleNames struct {
	Owner    string // owns every object; default sched_owner
	Sidecar  string // what a sidecar needs; default sched_sidecar
	Producer string // may call the SQL API, nothing else; default sched_producer
	Auditor  string // may read the views, nothing else; default sched_auditor
}

// maxRoleName is Postgres's limit for a name, in bytes. Longer ones are cut
// silently, which could make two roles one.
const maxRoleName = 63

func (r RoleNames) withDefaults() RoleNames {
	set := func(name *string, byDefault string) {
		if *name == "" {
			*name = byDefault
		}
	}
	set(&r.Owner, "sched_owner")
	set(&r.Sidecar, "sched_sidecar")
	set(&r.Producer, "sched_producer")
	set(&r.Auditor, "sched_auditor")
	return r
}

func (r RoleNames) all() []string {
	return []string{r.Owner, r.Sidecar, r.Producer, r.Auditor}
}

func (r RoleNames) validate() error {
	names := r.all()
	for i, name := range names {
		if len(name) > maxRoleName {
			return fmt.Errorf("role name %q has %d bytes: Postgres allows %d", name, len(name), maxRoleName)
		}
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("role name %q is given twice: owner, sidecar, producer and auditor need a role each", name)
		}
	}
	return nil
}

func (o Options) withDefaults() Options {
	o.Roles = o.Roles.withDefaults()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}
