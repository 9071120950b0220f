// Command pglock shows who holds which lock of a PostgreSQL server and who waits, says what to do about it, and runs programs
// under advisory locks.
//
//	pglock monitor                    who holds which lock, who waits for whom, and since when
//	pglock check                      the same as one line and an exit code, for Nagios and the like
//	pglock watch                      what happens, printed, told to a command, and recorded
//	pglock serve                      the same as a page for browsers, and as metrics for Prometheus
//	pglock replay, pglock report      what was recorded
//	pglock terminate PID              end a session, after showing all that ends with it; pglock cancel PID
//	pglock doctor                     what endangers locks on a server
//	pglock run KEY -- COMMAND ARGS…   run a command while holding a lock, as flock(1) does with a file
//	pglock key NAME…                  the number of a name, and the SQL that takes it
//	pglock migrate up                 install schema pglock: names for the monitor, numbers for fencing
//
// "pglock help COMMAND" says more about each.
//
// # Connection
//
// The server is given by --dsn, by DATABASE_URL, or by the variables and files of psql: PGHOST and the like, PGSERVICE
// with the service file, and ~/.pgpass. The command waits ten seconds for a host, unless connect_timeout says
// otherwise. It never prints passwords.
//
// # Exit codes
//
// They are those of sysexits(3) and of the shell:
//
//	0          done; of run, the command's own code
//	1          another error
//	1, 2, 3    of check: WARNING, CRITICAL, UNKNOWN, as for Nagios plugins
//	64         wrong usage: a flag, a key or a connection string
//	65         schema pglock belongs to a role that is not trusted, or is not pglock's
//	66         the session to signal does not exist (any more)
//	69         no database, or one that cannot keep locks
//	70         the lock was lost while the command ran
//	75         another session holds the lock (-E of run changes it)
//	77         the role may not signal that session
//	78         doctor found something as bad as --fail-on
//	126, 127   the command cannot be executed, was not found
//	128+n      ended by signal n: the command, or pglock while it waited, or its output was closed (141)
//
// # What lives where
//
// The commands are in internal/cli. They parse, connect, and call: package pglock for locks, package monitor for
// snapshots, package migrations for the schema. What they need beyond that is internal/job (a command under a lock, and
// its signals) with internal/cronspec (when it is due), internal/journal (what happened from one snapshot to the next),
// internal/recording, internal/report and internal/notify (what is kept of it, summed up, and told), internal/view
// (snapshots as text, and filters) with internal/fold, internal/tui (the view that fills the screen), internal/web (the
// page), internal/exporter and grafana (metrics, and a dashboard), internal/doctor (what hurts locks on a server),
// internal/term (terminals) and internal/man (manual pages). Nothing here knows how a lock is taken.
package main

import (
	"os"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:]))
}
