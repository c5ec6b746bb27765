// Package console serves pages that show the fleet to people: its workers, queues
// and tasks, what sched decided and who intervened. They only read.
//
// Everything is rendered on the server and works without scripts; with them, tables
// and charts follow by themselves. For that one poller reads Postgres once for all
// who look, while somebody does and a little longer, and streams what changed as
// server-sent events. Streams, rows, connections and the time of a statement are
// bounded, and each list is read from an index, or no further than a bound.
//
// What the role of the sidecar may not read is shown as not readable. While Postgres
// is away, pages say so and try again.
//
// On a loopback address nobody logs in, and requests for another host are refused,
// so that no web site can have a browser read it by a name of its own. Where others
// reach the listener, it is off without a token or a password.
package console
