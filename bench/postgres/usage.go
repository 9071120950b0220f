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

func (l *lab) usage() (u usage, err error) {
	if u.server, err = treeTime(l.server.PID()); err != nil {
		return u, err
	}
	u.client, err = ownTime()
	return u, err
}

func (u usage) since(before usage) usage {
	return usage{server: u.server - before.server, client: u.client - before.client}
}

// treeTime is the processor time of a process and its children, including ended ones. Only Linux reports it. It looks again
// if a child has ended meanwhile, whose time could be missing.
func treeTime(pid int) (time.Duration, error) {
	dir := fmt.Sprint("/proc/", pid)
	parent, err := readProcess(dir)
	for err == nil {
		var children time.Duration
		if children, err = childrenTime(pid); err != nil {
			break
		}
		before := parent.reaped
		if parent, err = readProcess(dir); parent.reaped == before {
			return parent.time + parent.reaped + children, err
		}
	}
	return 0, err
}

// childrenTime is the processor time of a process's children.
func childrenTime(parent int) (total time.Duration, err error) {
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, dir := range processes {
		p, err := readProcess(dir)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended meanwhile
		}
		if err != nil {
			return 0, err
		}
		if p.parent == parent {
			total += p.time
		}
	}
	return total, nil
}

// process holds the values of proc_pid_stat(5) and, more exact for a single thread, of schedstat.
type process struct {
	pid, parent  int
	time, reaped time.Duration
}

func readProcess(dir string) (process, error) {
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return process{}, err
	}
	p, err := parseStat(string(stat))
	if err != nil {
		return p, err
	}
	schedstat, err := os.ReadFile(filepath.Join(dir, "schedstat"))
	if err != nil {
		return p, err
	}
	running, _, _ := strings.Cut(string(schedstat), " ")
	nanoseconds, err := strconv.ParseInt(running, 10, 64)
	p.time = time.Duration(nanoseconds)
	return p, err
}

func parseStat(stat string) (p process, err error) {
	// The command in parentheses may contain anything, even parentheses.
	pid, _, _ := strings.Cut(stat, " ")
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	const parent, cutime, cstime = 1, 13, 14 // counted from the field after the command
	if len(fields) <= cstime {
		return p, fmt.Errorf("the status of a process has %d fields: %q", len(fields), stat)
	}
	var reaped [2]int
	for _, number := range []struct {
		text string
		into *int
	}{{pid, &p.pid}, {fields[parent], &p.parent}, {fields[cutime], &reaped[0]}, {fields[cstime], &reaped[1]}} {
		if *number.into, err = strconv.Atoi(number.text); err != nil {
			return p, fmt.Errorf("the status of a process: %w", err)
		}
	}
	p.reaped = ticks(reaped[0] + reaped[1])
	return p, nil
}

// ticks converts clock ticks: 100 per second on every architecture of Linux that Go supports (USER_HZ).
func ticks(n int) time.Duration { return time.Duration(n) * time.Second / 100 }
