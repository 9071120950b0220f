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

// Judgement is the result of a check.
type Judgement struct {
	Verdict Verdict
	// Text says why, and Data is the performance data: label=value;warn;critical;least.
	Text string
	Data []Datum
}

// Datum is a value of the performance data.
type Datum struct{ Label, Value string }

// Status judges the deadlocks and the longest wait among the locks that the filter shows. The text is the line of a
// plugin, with its performance data.
func Status(all *monitor.Snapshot, filter Filter, limits Limits, flags string) (Verdict, string) {
	j := Judge(all, filter, limits, flags)
	return j.Verdict, StatusLine(j.Verdict, j.Text) + " | " + dataText(j.Data)
}

// dataText quotes labels with spaces. Labels can contain neither quotes nor =, which would begin a
// value.
func dataText(data []Datum) string {
	var texts []string
	for _, d := range data {
		label := strings.NewReplacer("'", "", "=", "", "|", "").Replace(Printable(d.Label))
		if strings.Contains(label, " ") {
			label = "'" + label + "'"
		}
		texts = append(texts, label+"="+d.Value)
	}
	return strings.Join(texts, " ")
}

// Judge judges the deadlocks and the longest wait among the locks that the filter shows. Its text is the headline, and what
// carries the action out on the server that flags name, as [EndCommand] says.
func Judge(all *monitor.Snapshot, filter Filter, limits Limits, flags string) Judgement {
	s, action := filter.shown(all), filter.Action(all)
	longest, hidden := longestWait(s)
	verdict, text := limits.judge(longest), action.String()
	certain, possible := deadlocks(s)
	switch {
	case certain > 0:
		verdict = Critical
	case verdict == OK && hidden > 0:
		verdict = Unknown
		text += fmt.Sprintf("; the server does not report how long %s; %s", haveWaited(hidden), s.DetailsHidden)
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
	return Judgement{Verdict: verdict, Text: text, Data: performance(s, longest, limits)}
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

// performance formats data for plugins: value;warn;critical;least;most.
func performance(s *monitor.Snapshot, longest time.Duration, limits Limits) []Datum {
	holders, waiters := parties(s)
	return []Datum{
		{"longest_wait", fmt.Sprintf("%.3fs;%s;%s;0", longest.Seconds(), inSeconds(limits.Warn), inSeconds(limits.Fail))},
		{"waiters", fmt.Sprintf("%d;;;0", waiters+OtherWaiters(s))},
		{"holders", fmt.Sprintf("%d;;;0", holders)},
		{"lock_table", fmt.Sprintf("%.1f%%;;;0", s.Capacity.Percent())},
	}
}

func inSeconds(limit *time.Duration) string {
	if limit == nil {
		return ""
	}
	return fmt.Sprint(limit.Seconds())
}
