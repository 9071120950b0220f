package tui

import (
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
)

// log is the log of the view. It is immutable.
type log struct {
	entries []entry // the latest at the end
	counter int     // number of entries ever added
}

// entry is a line of the log. Its text is printable.
type entry struct {
	at   time.Time
	text string
}

// maxLog is the number of entries that are kept.
const maxLog = 500

func (l log) add(at time.Time, text string) log {
	all := append(slices.Clip(l.entries), entry{at, view.Printable(text)})
	return log{all[max(0, len(all)-maxLog):], l.counter + 1}
}

func (e entry) String() string { return clock(e.at) + "  " + e.text }

// topical is how long the last entry is news.
const topical = 30 * time.Second

// latest returns the last entry, or "" if there is none that is news.
func (l log) latest(now time.Time) string {
	if len(l.entries) == 0 {
		return ""
	}
	last := l.entries[len(l.entries)-1]
	if now.Sub(last.at) > topical {
		return ""
	}
	return last.String()
}

func clock(t time.Time) string { return t.Format("15:04:05") }
