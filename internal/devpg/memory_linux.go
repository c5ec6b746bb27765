package devpg

import "syscall"

const (
	memoryDir    = "/dev/shm"
	tmpfsMagic   = 0x01021994
	memoryNeeded = 2 << 30 // bytes; containers often have 64 MiB there
)

// roomInMemory reports whether /dev/shm is a memory file system with room for a test server.
func roomInMemory() bool {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(memoryDir, &fs); err != nil || fs.Type != tmpfsMagic {
		return false
	}
	const writable = 2 // W_OK
	return fs.Bavail*uint64(fs.Bsize) >= memoryNeeded && syscall.Access(memoryDir, writable) == nil
}
