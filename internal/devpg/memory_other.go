//go:build !linux

package devpg

const memoryDir = ""

// roomInMemory is false: there is no memory file system that every machine of this kind has.
func roomInMemory() bool { return false }
