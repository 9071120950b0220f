package job

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

func attributes(group bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: group, Pdeathsig: syscall.SIGKILL}
}

// adoptOrphans makes this process the parent of descendants whose parents have ended (PR_SET_CHILD_SUBREAPER(2const)).
func adoptOrphans() {
	const setChildSubreaper = 36
	syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0) //nolint:errcheck // it cannot fail since Linux 3.4
}

// descendants returns the processes that this one has started or adopted, and those that they have, except the members of
// a process group and zombies.
func descendants(group int) (all []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well-formed
	type process struct{ pid, group int }
	children := map[int][]process{}
	for _, file := range files {
		pid, state, parent, ofGroup := parseStat(file)
		if pid != 0 && state != "Z" {
			children[parent] = append(children[parent], process{pid, ofGroup})
		}
	}
	left := []int{os.Getpid()}
	for len(left) > 0 {
		parent := left[0]
		left = left[1:]
		for _, child := range children[parent] {
			left = append(left, child.pid)
			if child.group != group {
				all = append(all, child.pid)
			}
		}
	}
	return all
}

// parseStat reads /proc/PID/stat: the process ID, the name in parentheses, which may contain any byte, the state, the parent
// and the process group (proc_pid_stat(5)). The process ID is 0 if the process has ended.
func parseStat(file string) (pid int, state string, parent, group int) {
	text, err := os.ReadFile(file)
	name := bytes.LastIndexByte(text, ')')
	if err != nil || name < 0 {
		return 0, "", 0, 0
	}
	fields := strings.Fields(string(text[name+1:]))
	if len(fields) < 3 {
		return 0, "", 0, 0
	}
	pid, _ = strconv.Atoi(filepath.Base(filepath.Dir(file))) // the kernel writes numbers
	parent, _ = strconv.Atoi(fields[1])
	group, _ = strconv.Atoi(fields[2])
	return pid, fields[0], parent, group
}
