package tui

import (
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
)

// log is what happened, the latest at the end. It is never changed, only replaced.
type log []entry

// entry is printable.
type entry struct {
	at   time.Time
	text string
}

// longestLog is how many entries are kept.
const longestLog = 500

func (l log) add(at time.Time, text string) log {
	l = append(slices.Clip(l), entry{at, view.Printable(text)})
	return l[max(0, len(l)-longestLog):]
}

func (e entry) String() string { return clock(e.at) + "  " + e.text }

// latest is empty when nothing happened yet.
func (l log) latest() string {
	if len(l) == 0 {
		return ""
	}
	return l[len(l)-1].String()
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05") }
