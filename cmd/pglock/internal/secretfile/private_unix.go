//go:build unix

package secretfile

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// private returns an error if another user owns the file or can read it.
func private(info fs.FileInfo) error {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 && int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("belongs to another user (ID %d), who can change it", stat.Uid)
	}
	return hidden(info, true)
}

// hidden returns an error if users other than the owner can read or change the file. Like libpq for keys, it may allow the
// group to read root's files, since containers mount secrets that way.
func hidden(info fs.FileInfo, rootsGroup bool) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	mode := info.Mode().Perm()
	if mode&0o077 == 0 || rootsGroup && ok && stat.Uid == 0 && mode&0o037 == 0 {
		return nil
	}
	return fmt.Errorf("can be read or changed by other users: its mode is %04o (it may contain passwords: chmod 600)", mode)
}
