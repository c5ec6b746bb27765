// Package protocols holds one suite of black-box tests that every protocol between
// a sidecar and its app passes: what becomes of a task must not depend on how it
// travels.
//
// The app is one program, the test binary itself, that understands a task's args as
// instructions. Over http it is a server on a Unix socket, over grpc it opens a
// session, over exec it is started for each task; what it does in between is the same
// function. It notes each attempt in a table, from which the tests read what it saw.
package protocols
