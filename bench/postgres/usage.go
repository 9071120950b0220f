package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// usage is the processor time that the server and this process have used so far.
type usage struct{ server, client time.Duration }

func readUsage(postmaster int) (u usage, err error) {
	if u.server, err = treeTime(postmaster); err != nil {
		return u, err
	}
	u.client, err = processTime(os.Getpid())
	return u, err
}

// treeTime is the processor time of a process and its children, those included that have ended.
func treeTime(parent int) (total time.Duration, err error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	found := false
	for _, file := range files {
		stat, err := readStat(file)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended since
		}
		if err != nil {
			return 0, err
		}
		if stat.pid == parent {
			found = true
			total += stat.own + stat.reaped
		}
		if stat.parent == parent {
			total += stat.own
		}
	}
	if !found {
		return 0, fmt.Errorf("no process %d in /proc, which only Linux has", parent)
	}
	return total, nil
}

func processTime(pid int) (time.Duration, error) {
	stat, err := readStat(fmt.Sprintf("/proc/%d/stat", pid))
	return stat.own, err
}

// processStat is what proc_pid_stat(5) tells.
type processStat struct {
	pid, parent int
	own, reaped time.Duration
}

func readStat(file string) (s processStat, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return s, err
	}
	// The command in parentheses may contain anything, parentheses too.
	before, _, _ := strings.Cut(string(text), " ")
	fields := strings.Fields(string(text)[strings.LastIndexByte(string(text), ')')+1:])
	if len(fields) < 15 {
		return s, fmt.Errorf("%s: cannot read %q", file, text)
	}
	const parent, utime, stime, cutime, cstime = 1, 11, 12, 13, 14 // counted from the field behind the command
	numbers := map[int]int{}
	for _, field := range []int{parent, utime, stime, cutime, cstime} {
		if numbers[field], err = strconv.Atoi(fields[field]); err != nil {
			return s, fmt.Errorf("%s: %w", file, err)
		}
	}
	s.parent = numbers[parent]
	s.own, s.reaped = ticks(numbers[utime]+numbers[stime]), ticks(numbers[cutime]+numbers[cstime])
	s.pid, err = strconv.Atoi(before)
	return s, err
}

// ticks converts clock ticks, of which Linux shows 100 a second on every architecture that Go runs on (USER_HZ).
func ticks(n int) time.Duration { return time.Duration(n) * time.Second / 100 }
