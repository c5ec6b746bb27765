// Package supervise runs a user's command as a child, with all that it starts, and sees to its end: for `sched dev` and
// `sched-sidecar run -- command`.
//
// Invariants:
//   - The command and its descendants are one process group, apart from ours: a Ctrl-C in the terminal reaches them
//     through us alone, and what the command leaves behind ends with it.
//   - No group outlives the process that started it, however that process ends. A small /bin/sh guard leads the group
//     and holds the read end of a pipe; the write end is open in our process alone, so even kill -9 of ours ends the
//     pipe, and the guard ends the group: SIGTERM, then SIGKILL. Since the guard leads the group and is our child, the
//     group's number can't come to mean another group while we may still signal it.
//   - Where there is no /bin/sh, as in a minimal container, Linux itself kills the command when we die. Its descendants
//     are then up to the container or to systemd, which end them with us.
//
// What leaves the group on purpose (setsid, a daemon) is beyond it, and so is a guard that somebody kills together with
// us. There are no restarts: those are the business of whatever started us, such as systemd or Kubernetes.
package supervise
