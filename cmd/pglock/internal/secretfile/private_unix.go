//go:build unix

package secretfile

import (
	"fmt"
	"io/fs"
	"syscall"
)

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
