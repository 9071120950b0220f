package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

// Verdict is the result of a check. Its values are the exit codes that Nagios and its successors expect from a plugin
// (https://nagios-plugins.org/doc/guidelines.html#AEN78).
type Verdict int

// The verdicts.
const (
	OK Verdict = iota
	Warning
	Critical
	Unknown
)

// String returns the first word of a plugin's line.
func (v Verdict) String() string {
	return [...]string{"OK", "WARNING", "CRITICAL", "UNKNOWN"}[v]
}

// Limits says how long a session may wait for a lock. Nil means no limit.
type Limits struct{ Warn, Fail *time.Duration }

// Status judges the deadlocks and the longest wait among the locks that the filter shows. The text is the line of a plugin, with its
// performance data: the headline, and what carries the action out on the server that flags name, as [EndCommand] says.
func Status(all *monitor.Snapshot, filter Filter, limits Limits, flags string) (Verdict, string) {
	s, action := filter.shown(all), filter.Action(all)
	longest, hidden := longestWait(s)
	verdict, text := limits.judge(longest), action.String()
	certain, possible := deadlocks(s)
	switch {
	case certain > 0:
		verdict = Critical
	case verdict == OK && hidden > 0:
		verdict = Unknown
		text += strings.TrimSuffix(fmt.Sprintf("; the server does not report how long %s; %s", haveWaited(hidden), s.DetailsHidden), "; ")
	case verdict == OK && (all.RowLocksMissing != "" || all.BlockersMissing != ""):
		verdict = Unknown
		text += "; " + strings.Trim(all.BlockersMissing+"; "+all.RowLocksMissing, "; ")
	}
	for _, n := range []struct {
		n    int
		what string
	}{{certain, "deadlock"}, {possible, "possible deadlock"}} {
		if n.n > 0 {
			text += "; " + count(n.n, n.what)
		}
	}
	if end := EndCommand(action, flags); end != "" {
		text += "; run: " + end
	}
	return verdict, StatusLine(verdict, text) + " | " + performance(s, longest, limits)
}

func haveWaited(waiters int) string {
	if waiters == 1 {
		return "1 waiter has waited"
	}
	return fmt.Sprintf("%d waiters have waited", waiters)
}

// StatusLine is the line of a plugin without performance data. A bar would begin such data.
func StatusLine(verdict Verdict, text string) string {
	return fmt.Sprintf("PGLOCK %v - %s", verdict, strings.ReplaceAll(Printable(text), "|", "/"))
}

func (l Limits) judge(lasted time.Duration) Verdict {
	switch {
	case l.Fail != nil && lasted > *l.Fail:
		return Critical
	case l.Warn != nil && lasted > *l.Warn:
		return Warning
	}
	return OK
}

// longestWait returns the longest wait that is not expected, for a lock of any type, and how many have a hidden length. A wait
// without a time has just begun.
func longestWait(s *monitor.Snapshot) (longest time.Duration, hidden int) {
	for wait := range s.Waits() {
		switch {
		case wait.Expected:
		case slices.Contains(wait.Hidden, "waiting_since"):
			hidden++
		case wait.WaitingSince != nil:
			longest = max(longest, s.TakenAt.Sub(*wait.WaitingSince))
		}
	}
	return longest, hidden
}

// deadlocks counts certain deadlocks, and possible ones, which depend on whether one task of a process holds
// and waits.
func deadlocks(s *monitor.Snapshot) (certain, possible int) {
	for _, cycle := range s.Cycles {
		if cycle.Certain {
			certain++
		} else {
			possible++
		}
	}
	return certain, possible
}

// performance returns data for plugins: label=value;warn;critical;least.
func performance(s *monitor.Snapshot, longest time.Duration, limits Limits) string {
	holders, waiters := parties(s)
	return fmt.Sprintf("longest_wait=%.3fs;%s;%s;0 waiters=%d;;;0 holders=%d;;;0 lock_table=%.1f%%;;;0",
		longest.Seconds(), inSeconds(limits.Warn), inSeconds(limits.Fail), waiters+OtherWaiters(s), holders, s.Capacity.Percent())
}

func inSeconds(limit *time.Duration) string {
	if limit == nil {
		return ""
	}
	return fmt.Sprint(limit.Seconds())
}
