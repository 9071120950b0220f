// Package display writes durations and lock modes in the few characters that the faces of the monitor have for them.
package display

import (
	"cmp"
	"fmt"
	"time"
)

// Age formats a duration in at most seven characters: "850ms", "9.4s", "42s", "4m02s", "3h07m", "12d05h". A negative
// one counts as 0.
func Age(d time.Duration) string {
	const day = 24 * time.Hour
	switch d = max(d, 0); {
	case d < time.Second:
		return fmt.Sprintf("%dms", d/time.Millisecond)
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%02dh", d/day, d%day/time.Hour)
}

var short = map[string]string{
	"exclusive":                "excl",
	"AccessShareLock":          "AccShare",
	"RowShareLock":             "RowShare",
	"RowExclusiveLock":         "RowExcl",
	"ShareUpdateExclusiveLock": "ShUpdExcl",
	"ShareRowExclusiveLock":    "ShRowExcl",
	"AccessExclusiveLock":      "AccExcl",
}

// Mode returns a form of at most nine characters that is still readable, such as "excl", "AccExcl" or "ShUpdExcl". A mode
// that PostgreSQL does not have is returned as it is.
func Mode(mode string) string { return cmp.Or(short[mode], mode) }
