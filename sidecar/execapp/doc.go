// Package execapp hands tasks to a command: one process for each attempt.
//
// The args come on standard input, everything else in variables SCHED_*. The exit
// status says how the attempt ended (0 complete, 65 cancel, 75 and any other
// retry, after BSD's sysexits.h: EX_DATAERR, EX_TEMPFAIL); standard output that
// is JSON is the task's output, the end of standard error the error's text.
//
// # Invariants
//
//   - The command and all its descendants are one process group. When the
//     attempt is ended from outside, the group gets SIGTERM and, after a grace,
//     SIGKILL; when the command exits, what it left behind is killed.
//   - Nothing that a command writes can fill the memory: what is kept is bounded,
//     the rest is read and dropped.
//   - A command that can't be started has not seen the task: it is handed back
//     unspent, and nothing more is claimed until the command is there again.
package execapp
