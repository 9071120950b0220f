package wire

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// mark ends the application_name of every lock session. It is the same for all sessions of this process, and random: one
// process's locks live on several sessions, and a search for deadlocks has to know which of them belong together.
var mark = fmt.Sprintf(" (pglock %08x)", rand.Uint32())

// markedName is the application_name of lock sessions: their own, or that of the caller's connections, or the name of the
// program.
func markedName(chosen, own string) string {
	name := chosen
	if name == "" {
		name = own
	}
	if name == "" {
		name = filepath.Base(os.Args[0])
	}
	return cut(name, maxName-len(mark)) + mark
}

// OfThisProcess reports whether a session with this application_name is one of this process's lock sessions.
func OfThisProcess(name string) bool { return strings.HasSuffix(name, mark) }

// cut shortens name, between two characters, to what the server keeps in n bytes.
func cut(name string, n int) string {
	length := 0
	for i, r := range name {
		if length += shownLength(r); length > n {
			name = name[:i]
			break
		}
	}
	return strings.TrimSpace(name)
}

// shownLength is how many bytes a character takes in application_name. From version 16 on the server writes each byte
// that is not printable ASCII as \xc3, before it cuts the name; earlier ones write a question mark (pg_clean_ascii in
// src/common/string.c). The version is not known before the session is open, so this is the longer form.
func shownLength(r rune) int {
	const escaped = len(`\xc3`)
	switch {
	case r >= utf8.RuneSelf:
		return escaped * utf8.RuneLen(r)
	case r < ' ' || r > '~':
		return escaped
	}
	return 1
}

// maxName is how many bytes of a name the server keeps: one less than NAMEDATALEN
// (https://www.postgresql.org/docs/current/runtime-config-logging.html#GUC-APPLICATION-NAME).
const maxName = 63
