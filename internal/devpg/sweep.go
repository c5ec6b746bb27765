package devpg

import (
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// temporaryMark is the file that says that a directory may go when its server is gone.
const temporaryMark = "temporary"

// sweepAge spares directories whose maker has not locked them yet.
const sweepAge = 10 * time.Minute

// sweep removes temporary directories that nobody can have removed: owner and supervisor were killed together, as with a
// container. Nobody holds their lock. What can't be removed now is left to the next start.
func sweep(parent string, acct account) {
	dirs, err := filepath.Glob(filepath.Join(parent, "sched-pg-[0-9]*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		if abandoned(dir, acct) {
			_ = os.RemoveAll(dir)
		}
	}
}

func abandoned(dir string, acct account) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || time.Since(info.ModTime()) < sweepAge {
		return false
	}
	// Names in a directory that everybody writes to prove nothing: only what our own account made is ours.
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != acct.uid {
		return false
	}
	if _, err := os.Lstat(filepath.Join(dir, temporaryMark)); err != nil {
		return false // chosen by somebody, or to be kept
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer func() { _ = lock.Close() }()
	return syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
