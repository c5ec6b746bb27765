// Package simulate plays load against a fleet on a virtual clock: the decisions
// are those of package elastic, as a sidecar takes them, and the app is a model.
//
// It is a fluid model: tasks are counted in fractions and in steps of a few
// milliseconds, workers of one speed are one cohort, and waits are those of a
// first-in-first-out queue, no finer than a step. So an hour of ten thousand
// workers takes seconds, and how long single tasks happen to take is left out.
package simulate
