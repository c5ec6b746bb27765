// Package httpapp hands tasks to an app over HTTP: one POST for each attempt,
// whose response says how the attempt ended. docs/http.md is the contract with
// app developers; this package keeps it.
//
// # How an attempt ends
//
// The status decides ([outcomeOf], a pure function); the body is the output of
// a completed task, or goes into the error text. When the context of
// [Dispatcher.Dispatch] ends first, its cause decides ([dispatch.Interrupted]) and the request
// is cancelled, so that the app sees the disconnect. An answer that was
// received whole counts even if the context ended a moment later.
//
// # Invariants
//
//   - One attempt is one delivery. The transport re-sends a request only if it
//     wrote none of it to a kept-alive connection that turned out to be closed.
//   - Nothing that the app answers can fail a settle or fill the memory: sizes
//     are bounded, and outputs and error texts pass through package answer.
//   - Headers of a task never replace ours, frame the message, or smuggle a
//     header in.
//   - Redirects aren't followed and proxies of the environment aren't used: a
//     task goes where the configuration says, or nowhere.
package httpapp
