// Package fleettest runs sched's own programs for black-box tests: real
// sched-sidecar processes, built once from this tree, configured by their
// environment and watched where a user watches them.
//
// Every process that it starts is ended with its test, and on Linux also with the
// test binary, however that ends. A sidecar that doesn't end when it is asked to,
// or whose log shows a panic or a data race, fails its test.
package fleettest
