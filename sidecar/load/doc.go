// Package load measures what the app uses of the cpu and memory that it may use.
//
// What counts as the app is its process and all descendants, where they can be
// seen: those of a command that the sidecar started, or of a process id that it was
// told. Otherwise the sidecar's cgroup is measured if it has a limit, else the whole
// machine. That tells people something, but it is not the app's load (a neighbour
// may cause it, or the database beside it), and nothing is decided by it: see
// [Usage.App].
//
// Memory of the app is what is resident in its processes, with pages that they share
// counted once, and no more than its cgroup uses where nobody else is in that (without
// file contents that the kernel drops before anything else).
//
// What may be used is the tightest limit of the cgroups around (version 1 or 2),
// else what the machine has. All of it comes from /proc and /sys, so it is known on
// Linux only. A reading that fails leaves the last sample to grow old, and what is
// old is never acted on.
package load
