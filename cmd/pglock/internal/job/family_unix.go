//go:build unix && !linux

package job

import "syscall"

func attributes(group bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: group} }

// Only Linux gives orphans to a process that asks for them.

func adoptOrphans() {}

func descendants(int) []int { return nil }
