//go:build unix

package secretfile

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// private returns an error if another user owns the file or can read it. Like libpq for keys, it allows the group to read
// root's files, since containers mount secrets that way.
func private(info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	mode := info.Mode().Perm()
	switch {
	case ok && stat.Uid != 0 && int(stat.Uid) != os.Geteuid():
		return fmt.Errorf("belongs to another user (ID %d), who can change it", stat.Uid)
	case mode&0o077 == 0 || ok && stat.Uid == 0 && mode&0o037 == 0:
		return nil
	}
	return fmt.Errorf("can be read or changed by other users: its mode is %04o (it may contain passwords: chmod 600)", mode)
}
