package postgres

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// mark ends the application_name of every lock session. It is the same for all sessions of this process, and random: one
// process's locks live on several sessions, and whoever looks for deadlocks has to know which of them belong together.
var mark = fmt.Sprintf(" (pglock %08x)", rand.Uint32())

// markedName is the application_name of lock sessions: what was chosen for them, or what the caller's own connections
// have, or the name of the program.
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

// cut shortens s to n bytes, between two characters.
func cut(s string, n int) string {
	for len(s) > n {
		_, size := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-size]
	}
	return strings.TrimSpace(s)
}

// maxName is how many bytes of a name the server keeps: one less than NAMEDATALEN
// (https://www.postgresql.org/docs/current/runtime-config-logging.html#GUC-APPLICATION-NAME).
const maxName = 63
