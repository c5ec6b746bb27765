// Package devpg runs a Postgres server of one's own: for `sched dev`, for benchmarks without a DSN, and for tests.
//
// The server binaries are those of the machine (SCHED_PG_BIN, PATH, pg_config, the usual directories); where there are
// none, they are downloaded once into a cache or, as root on Debian, installed with apt-get. Both are announced first.
//
// Invariants:
//   - A server never outlives the process that started it, however that process ends. A small /bin/sh supervisor is the
//     server's parent and holds the read end of a pipe; the write end is open in our process alone, so even kill -9 of
//     ours ends the pipe, and with it the server and its temporary directory. Nothing re-executes the current binary.
//   - Postgres refuses to run as root, so a root process runs it as the account postgres, or nobody.
//   - The directory is private (0700), TCP listens on 127.0.0.1 only and asks for a random password; the Unix socket
//     lies in the private directory and asks for none.
//   - A directory has one server at a time: a lock file is held by our process, the supervisor and every server process,
//     so whoever gets the lock knows that nothing of the last server is left, and recovers a stale directory.
//   - A temporary directory whose owner and supervisor were killed together is removed by a later start. Fast servers have
//     theirs in /dev/shm where there is room, unless TMPDIR is set.
//   - No goroutine runs while the server does: leak checks in tests stay quiet.
//
// On failure Start returns an error with the end of the server's log and leaves nothing behind. Windows is not supported.
package devpg
