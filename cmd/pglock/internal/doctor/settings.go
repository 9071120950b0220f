package doctor

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pglock-toolkit/pglock/internal/monitordb"
)

// timeout is a setting that ends or disturbs locks if it is not 0.
type timeout struct {
	setting string
	level   Level
	why     string
	do      string
}

var allTimeouts = []timeout{
	{
		setting: idleSession, level: Warning,
		why: "the server ends a session that is idle for this long, and frees its locks. Lockers set it for their own " +
			"sessions, so it affects only other sessions that hold locks, such as those of psql",
		do: "turn it off for a role whose idle sessions hold locks",
	},
	{
		setting: statementTimeout, level: Note,
		why: "a statement that waits for a lock in a transaction of yours, such as LockTx, is cancelled after this time, and " +
			"the transaction fails. Lockers are not affected",
		do: "give LockTx a shorter MaxWait, after which the transaction can continue, or raise the timeout",
	},
	{
		setting: lockTimeout, level: Note,
		why: "a statement that waits for a lock in a transaction of yours, such as LockTx, gives up after this time. Lockers " +
			"are not affected",
		do: "raise it if waits may take longer",
	},
}

func timeouts(f facts) []Finding {
	var all []Finding
	for _, t := range allTimeouts {
		s, known := f.settings[t.setting]
		switch {
		case !known:
		case s.Setting == "0":
			all = append(all, Finding{Check: t.setting, Level: OK, What: t.setting + " is off"})
		default:
			finding := Finding{
				Check: t.setting, Level: t.level,
				What: fmt.Sprintf("%s is %s (%s)", t.setting, s.Shown, f.origin(s)),
				Why:  t.why, Do: t.do + f.otherSource(s),
			}
			if t.level != Note { // the others protect the server
				finding.SQL = f.set(s, "0")
			}
			all = append(all, finding)
		}
	}
	return all
}

func isolation(f facts) Finding {
	s := f.settings[isolationSetting]
	if s.Setting == "read committed" || s.Setting == "read uncommitted" {
		return Finding{Check: isolationSetting, Level: OK, What: isolationSetting + " is " + s.Setting}
	}
	return Finding{
		Check: isolationSetting, Level: Warning,
		What: fmt.Sprintf("%s is %s (%s)", isolationSetting, s.Shown, f.origin(s)),
		Why: "such a transaction reads data from before it had its lock, so LockTx refuses it with ErrStaleSnapshot. " +
			"Lockers are not affected",
		Do:  "begin transactions that lock with READ COMMITTED, or change the default" + f.otherSource(s),
		SQL: f.set(s, "'read committed'"),
	}
}

// vanishedWaiters reports servers that do not notice when a waiting client disappears.
func vanishedWaiters(f facts) Finding {
	s := f.settings[checkInterval]
	if s.Setting == "0" {
		return Finding{
			Check: checkInterval, Level: Note,
			What: "client_connection_check_interval is off",
			Why: "a session that waits for a lock does not notice that its client is gone: it keeps waiting, and gets the " +
				"lock before it notices. Lockers set it for their own sessions",
			Do:  "set it for roles that wait for locks in other ways (where the server's operating system allows it)",
			SQL: f.set(s, "'10s'"),
		}
	}
	return Finding{Check: checkInterval, Level: OK, What: "client_connection_check_interval is " + s.Shown}
}

// tolerableSeconds is how long a dead host may keep its locks without a finding.
const tolerableSeconds = 15 * 60

func keepalives(f facts) Finding {
	const check = "tcp_keepalives"
	if !f.connection.OverTcp {
		return Finding{Check: check, Level: OK, What: "the connection is a Unix socket, which reports when its client is gone"}
	}
	idle, interval, count := f.number(keepalivesIdle), f.number(keepalivesInterval), f.number(keepalivesCount)
	silence := idle + interval*count
	what := fmt.Sprintf("TCP keepalives notice after about %s that a client's host is gone "+
		"(tcp_keepalives_idle %ds, and %d probes every %ds)", durationText(silence), idle, count, interval)
	if silence > 0 && silence <= tolerableSeconds {
		return Finding{Check: check, Level: OK, What: what}
	}
	return Finding{
		Check: check, Level: Note,
		What: what,
		Why: "until then the server keeps the locks of an idle session whose host or network has failed. Lockers set " +
			"keepalives for their own sessions",
		Do: "shorten them for roles that hold locks in other ways",
		SQL: append(append(f.set(f.settings[keepalivesIdle], "60"), f.set(f.settings[keepalivesInterval], "10")...),
			f.set(f.settings[keepalivesCount], "6")...),
	}
}

// number returns the value of a setting in its unit, or 0 if the server does not have the setting.
func (f facts) number(setting string) int {
	n, err := strconv.Atoi(f.settings[setting].Setting)
	if err != nil {
		return 0
	}
	return n
}

func durationText(seconds int) string {
	const hour = 3600
	switch {
	case seconds >= hour:
		return fmt.Sprintf("%d h %d min", seconds/hour, seconds%hour/60)
	case seconds >= 60:
		return fmt.Sprintf("%d min", seconds/60)
	}
	return fmt.Sprintf("%d s", seconds)
}

// origin returns where a setting comes from, in the syntax of the statement that would change it.
func (f facts) origin(s monitordb.SettingsRow) string {
	role, database := quote(f.connection.Role), quote(f.connection.Database)
	switch s.Source {
	case "database user":
		return fmt.Sprintf("from ALTER ROLE %s IN DATABASE %s", role, database)
	case "user":
		return "from ALTER ROLE " + role
	case "database":
		return "from ALTER DATABASE " + database
	case "global":
		return "from ALTER ROLE ALL"
	case "configuration file":
		return "from the server's configuration file"
	case "client":
		return "from the connection string"
	}
	return "from " + s.Source
}

// fromClient reports whether the client made a setting, so that the server cannot change it.
func fromClient(s monitordb.SettingsRow) bool { return s.Source == "client" || s.Source == "session" }

func (f facts) otherSource(s monitordb.SettingsRow) string {
	if fromClient(s) {
		return "; take it out of the connection string (options, PGOPTIONS)"
	}
	return ""
}

// set returns the statement that gives the role another value in new sessions. It is for this database if the present
// value is, since that takes precedence (https://www.postgresql.org/docs/current/sql-alterrole.html).
func (f facts) set(s monitordb.SettingsRow, value string) []string {
	if fromClient(s) || s.Name == "" {
		return nil
	}
	in := ""
	if s.Source == "database user" {
		in = " IN DATABASE " + quote(f.connection.Database)
	}
	return []string{fmt.Sprintf("ALTER ROLE %s%s SET %s = %s", quote(f.connection.Role), in, s.Name, value)}
}

// statements splits a text that has one statement on each line.
func statements(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		all = append(all, strings.TrimSuffix(strings.TrimSpace(line), ";"))
	}
	return all
}
