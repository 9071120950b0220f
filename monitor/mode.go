package monitor

import "slices"

// The modes of advisory locks.
const (
	modeShared    = "shared"
	modeExclusive = "exclusive"
)

// modeOf translates the mode of a row of pg_locks.
func modeOf(lockmode string) string {
	switch lockmode {
	case "ShareLock":
		return modeShared
	case "ExclusiveLock":
		return modeExclusive
	}
	return lockmode
}

// PostgreSQL's table of conflicting lock modes, rows and columns alike in the order of modes
// (https://www.postgresql.org/docs/current/explicit-locking.html#TABLE-LOCK-COMPATIBILITY).
var (
	modes = []string{"AccessShareLock", "RowShareLock", "RowExclusiveLock", "ShareUpdateExclusiveLock",
		modeShared, "ShareRowExclusiveLock", modeExclusive, "AccessExclusiveLock"}
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

// conflict reports whether two sessions cannot hold a lock in these modes at once.
func conflict(a, b string) bool {
	row, column := slices.Index(modes, a), slices.Index(modes, b)
	return row >= 0 && column >= 0 && conflicts[row][column] == 'x'
}
