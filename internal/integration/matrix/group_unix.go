//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// lead makes the command the leader of a new process group.
func lead(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
