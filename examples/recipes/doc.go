// Package recipes runs the recipes of docs/recipes: small shops in several
// languages, each of which enqueues a task in the transaction of an order and
// ends it in the transaction of the invoice that it asks for.
//
// The package is its tests. Each shop runs as a process against a real Postgres
// and a real sidecar, as login roles that may no more than docs/sql.md says.
// A shop whose runtime isn't on the machine is skipped, with a message that
// names what is missing. With the build tag verify, what Debian packages is
// installed first, on Debian and as root. Another test holds the snippets of the
// pages to the files here.
package recipes
