// Package remainder knows what is left to do for one sidecar: whether a run that lasts until its queues are empty may end,
// and what came of it.
//
// Waited for is each task that the sidecar could run, by its labels, protocols, queues and kinds, and that
//   - waits, also in a paused queue,
//   - runs, here or elsewhere: it may come back,
//   - is between two attempts, however long the delay: failed and to be retried, or put off by the app.
//
// Not waited for is a task that somebody scheduled for later and that is not due, one that a River client holds back
// (pending), and one of a kind that the app doesn't have. The latter is left behind, and said so.
//
// The run has failed when a task that it ran failed for good (discarded, or cancelled by the app's answer), or when
// tasks were left behind because the app lacks their kind. What other sidecars ran is theirs to judge.
package remainder
