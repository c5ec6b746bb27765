// Package config is what a sidecar can be told: one struct, [Sidecar], with one
// set of defaults, [DefaultSidecar], and one check, [Sidecar.Validate].
//
// [Load] reads, each above the one before: the defaults, DATABASE_URL, a YAML
// file, the SCHED_* variables, and flags. A key set by a higher source replaces
// the lower one's value whole, lists and maps too. With no source at all the
// result works against a local Postgres and an app on port 8080.
//
// One table, [Fields], gives each key its flag, its variable, its bounds and
// its words in docs/config.md. What nobody reads is an error: an unknown key or
// SCHED_* variable names the nearest one that exists. All problems are reported
// at once, in an [InvalidError].
//
// Secrets ([Secret], [DSN]) show as xxxxx wherever they are printed, logged or
// marshaled; Reveal gives the text itself.
package config

//go:generate go test . -run TestDocs -update
