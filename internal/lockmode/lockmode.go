// Package lockmode shortens the names of PostgreSQL's lock modes.
package lockmode

import "cmp"

var short = map[string]string{
	"exclusive":                "excl",
	"AccessShareLock":          "AccShare",
	"RowShareLock":             "RowShare",
	"RowExclusiveLock":         "RowExcl",
	"ShareUpdateExclusiveLock": "ShUpdExcl",
	"ShareRowExclusiveLock":    "ShRowExcl",
	"AccessExclusiveLock":      "AccExcl",
}

// Short returns a form of at most nine characters that is still readable, such as "excl", "AccExcl" or "ShUpdExcl". A mode
// that PostgreSQL does not have is returned as it is.
func Short(mode string) string { return cmp.Or(short[mode], mode) }
