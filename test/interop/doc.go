// Package interop holds the tests of sched beside River's own Go client, both
// ways: what that client inserts, our sidecar works; what SQL enqueues, that
// client lists, cancels, retries and deletes.
//
// Each test has a database, a whole sidecar in this process (see [app.RunSidecar]
// in internal/app) and a web server for the app. River's client is the released
// one with its stock driver, configured as docs/river.md tells its users to; the
// table in that page says what these tests show.
//
// River UI is tested in the module below this directory, so that nothing here
// depends on it.
package interop
