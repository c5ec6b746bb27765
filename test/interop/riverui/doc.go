// Package riverui holds the tests of River UI (riverqueue.com/riverui) on a
// database of this project. It is a module of its own: River UI is under the
// Mozilla Public License, and nothing that is shipped depends on it.
//
// TestVerifyAMillionHotRows, behind the build tag verify, states how usable the
// pages are at a million rows in sched.river_job, as figures of docs/verify.md.
package riverui
