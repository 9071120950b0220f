package doctor

import (
	"fmt"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
)

// The sessions of a Locker with default options: two mux sessions and, while locks are waited for or held after a wait,
// up to sixteen wait sessions. With one of these it can wait in the server's queue.
const (
	lockerNeeds   = 2 + 1
	lockerMayHave = 2 + 16
)

// connectionLimit is one of the limits on the number of connections.
type connectionLimit struct {
	what        string
	used, limit int64
	advice, sql string
}

func (b connectionLimit) left() int64 { return max(b.limit-b.used, 0) }

// connections checks that there is room for the sessions that a Locker dials besides the program's pool.
func connections(f facts) Finding {
	const check = "connections"
	b := tightest(f)
	what := fmt.Sprintf("%d connections are left (%s: %d of %d are used)", b.left(), b.what, b.used, b.limit)
	if b.left() >= lockerMayHave {
		return Finding{Check: check, Level: OK, What: what}
	}
	level := Note
	if b.left() < lockerNeeds {
		level = Warning
	}
	advice := b.advice
	if end := view.EndCommand(f.snapshot.Action(), f.server); end != "" { // most of them may wait for one session
		advice = "first let those go on that wait: " + end + "; then " + advice
	}
	return Finding{
		Check: check, Level: level,
		What: what,
		Why: fmt.Sprintf("a Locker dials its own sessions, besides the program's pool: %d, and up to %d when many locks "+
			"are waited for. Without any, taking a lock fails with ErrUnavailable; with too few, waiters poll",
			lockerNeeds, lockerMayHave),
		Do:  advice,
		SQL: []string{b.sql},
	}
}

// tightest is the limit that leaves the fewest connections.
func tightest(f facts) connectionLimit {
	c := f.connections
	b := connectionLimit{
		what: "max_connections without the reserved ones", used: c.ServerUsed, limit: c.ServerLimit,
		advice: "make pools smaller, or allow more connections, which takes memory and a restart of the server (on a managed " +
			"server without ALTER SYSTEM, in its parameter group)",
		sql: fmt.Sprintf("ALTER SYSTEM SET max_connections = %d", 2*c.ServerLimit),
	}
	for _, other := range []connectionLimit{
		{"limit of the database", c.DatabaseUsed, c.DatabaseLimit, "make pools smaller, or lift the limit",
			fmt.Sprintf("ALTER DATABASE %s CONNECTION LIMIT -1", quote(f.connection.Database))},
		{"limit of the role", c.RoleUsed, c.RoleLimit, "make pools smaller, or lift the limit",
			fmt.Sprintf("ALTER ROLE %s CONNECTION LIMIT -1", quote(f.connection.Role))},
	} {
		if other.limit >= 0 && other.left() < b.left() {
			b = other
		}
	}
	return b
}
