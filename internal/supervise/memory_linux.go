package supervise

import "syscall"

// memoryDir returns a directory whose files are kept in memory, if there is room for a few servers. PostgreSQL makes
// hundreds of files for each database, which takes several times as long on a disk.
func memoryDir() (dir string, ok bool) {
	const dirInMemory, room = "/dev/shm", 4 << 30
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dirInMemory, &fs); err != nil {
		return "", false
	}
	return dirInMemory, fs.Type == tmpfs && fs.Bavail*uint64(fs.Bsize) >= room
}

const tmpfs = 0x01021994 // TMPFS_MAGIC in linux/magic.h
