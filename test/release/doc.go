// Package release holds the tests of what is handed out: the binaries of `make
// build` and of `go install`. They build everything anew, so all of them have the
// build tag verify.
package release
