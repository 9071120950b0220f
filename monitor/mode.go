package monitor

import (
	"cmp"
	"slices"
)

// Mode is how a lock is held or wanted: [ModeShared] or [ModeExclusive]. Extensions can use PostgreSQL's other lock
// modes on their own keys; these appear as pg_locks writes them, such as "RowExclusiveLock".
type Mode string

const (
	// ModeShared is what pg_advisory_lock_shared takes; many can hold it at once. pg_locks calls it ShareLock.
	ModeShared Mode = "shared"
	// ModeExclusive is what pg_advisory_lock takes. pg_locks calls it ExclusiveLock.
	ModeExclusive Mode = "exclusive"
)

// modeOf translates the mode of a row of pg_locks.
func modeOf(lockmode string) Mode {
	switch lockmode {
	case "ShareLock":
		return ModeShared
	case "ExclusiveLock":
		return ModeExclusive
	}
	return Mode(lockmode)
}

// shortModes are the modes that Short abbreviates.
var shortModes = map[Mode]string{
	ModeExclusive:              "excl",
	"AccessShareLock":          "AccShare",
	"RowShareLock":             "RowShare",
	"RowExclusiveLock":         "RowExcl",
	"ShareUpdateExclusiveLock": "ShUpdExcl",
	"ShareRowExclusiveLock":    "ShRowExcl",
	"AccessExclusiveLock":      "AccExcl",
}

// Short returns a form of at most nine characters that is still readable, such as "excl", "AccExcl" or "ShUpdExcl". A mode
// that PostgreSQL does not have is returned as it is.
func (m Mode) Short() string { return cmp.Or(shortModes[m], string(m)) }

// PostgreSQL's table of conflicting lock modes, rows and columns alike in the order of modes
// (https://www.postgresql.org/docs/current/explicit-locking.html#TABLE-LOCK-COMPATIBILITY).
var (
	modes = []Mode{"AccessShareLock", "RowShareLock", "RowExclusiveLock", "ShareUpdateExclusiveLock",
		ModeShared, "ShareRowExclusiveLock", ModeExclusive, "AccessExclusiveLock"}
	conflicts = []string{
		".......x",
		"......xx",
		"....xxxx",
		"...xxxxx",
		"..xx.xxx",
		"..xxxxxx",
		".xxxxxxx",
		"xxxxxxxx",
	}
)

// conflictsWith reports whether two sessions cannot hold a lock in these modes at once.
func (m Mode) conflictsWith(other Mode) bool {
	row, column := slices.Index(modes, m), slices.Index(modes, other)
	return row >= 0 && column >= 0 && conflicts[row][column] == 'x'
}
