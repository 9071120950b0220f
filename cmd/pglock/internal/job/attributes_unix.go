//go:build unix && !linux

package job

import "syscall"

func attributes(group bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: group}
}
