// Package appname writes and reads the application_name of lock sessions, such as "billing (pglock 1f3a9c42)".
//
// The name ends with the mark of the process, a random number. A process's locks are on several sessions, and a search
// for deadlocks has to know which of them belong together.
package appname

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// mark is that of this process.
var mark = fmt.Sprintf(" (pglock %08x)", rand.Uint32())

var marked = regexp.MustCompile(` ?\(pglock ([0-9a-f]{8})\)$`)

// Of returns the application_name of this process's lock sessions. It begins with chosen, or if that is empty with own,
// which is that of the caller's connections, or else with the name of the program.
func Of(chosen, own string) string {
	name := strings.Map(ascii, cmp.Or(chosen, own, filepath.Base(os.Args[0])))
	return strings.TrimSpace(name[:min(len(name), maxName-len(mark))]) + mark
}

// OfThisProcess reports whether a session with this application_name is one of this process's lock sessions.
func OfThisProcess(name string) bool { return strings.HasSuffix(name, mark) }

// Split returns an application_name without its mark, and the mark's number, which is empty if there is no mark.
func Split(name string) (application, process string) {
	if at := marked.FindStringSubmatchIndex(name); at != nil {
		return name[:at[0]], name[at[2]:at[3]]
	}
	return name, ""
}

// ascii replaces what the server replaces in application_name: version by version it writes something else for a character that
// is not printable ASCII, and some of it is longer (pg_clean_ascii in src/common/string.c).
func ascii(r rune) rune {
	if r < ' ' || r > '~' {
		return '?'
	}
	return r
}

// maxName is how many bytes of a name the server keeps: one less than NAMEDATALEN
// (https://www.postgresql.org/docs/current/runtime-config-logging.html#GUC-APPLICATION-NAME).
const maxName = 63
