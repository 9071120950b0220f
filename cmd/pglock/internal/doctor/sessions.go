package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pglock-toolkit/pglock/monitor"
)

// idleHolders finds sessions that are idle in transaction and block others, those with the most sessions behind them
// first. Only their clients can continue.
func idleHolders(f facts) []Finding {
	const check = "idle-in-transaction"
	behind := f.snapshot.Behind()
	var idle []monitor.Session
	for session := range f.snapshot.Sessions() {
		if strings.HasPrefix(session.State, "idle in transaction") && behind[session.ID()] > 0 {
			idle = append(idle, session)
		}
	}
	if len(idle) == 0 {
		return []Finding{{Check: check, Level: OK, What: "no session that is idle in transaction blocks others"}}
	}
	slices.SortFunc(idle, func(a, b monitor.Session) int {
		return cmp.Or(cmp.Compare(behind[b.ID()], behind[a.ID()]), cmp.Compare(a.PID, b.PID))
	})
	var all []Finding
	for _, session := range idle {
		all = append(all, Finding{
			Check: check, Level: Warning,
			What: fmt.Sprintf("%s is %s%s; %s blocked by it, directly or through others", who(session), session.State,
				age(f.snapshot, session.StateSince), isAre(behind[session.ID()])),
			Why: "its client has begun a transaction and is sending nothing; its locks stay until the transaction ends. " +
				"Cancelling frees none of them",
			Do: fmt.Sprintf("bound it with idle_in_transaction_session_timeout, which WithGuardIdleTimeout sets for transactions "+
				"guarded by GuardTx; now, find out what the client waits for, or end the session: %s", f.terminate(session.ID())),
		})
	}
	return atMost(all, "such sessions")
}

func isAre(sessions int) string {
	if sessions == 1 {
		return "1 session is"
	}
	return fmt.Sprintf("%d sessions are", sessions)
}

// eventTriggers reports event triggers, which can refuse the DDL of pglock: the schema, and the temporary domain for waits
// without a snapshot. It does not try any DDL, since that would run the trigger's function.
func eventTriggers(f facts) Finding {
	const check = "event-triggers"
	if len(f.triggers) == 0 {
		return Finding{Check: check, Level: OK, What: "no event trigger runs for DDL"}
	}
	var names []string
	for _, trigger := range f.triggers {
		text := fmt.Sprintf("%s (%s, owner %s)", quote(trigger.Name), trigger.Event, quote(trigger.Owner))
		if trigger.Tags != "" {
			text = fmt.Sprintf("%s (%s of %s, owner %s)", quote(trigger.Name), trigger.Event, trigger.Tags, quote(trigger.Owner))
		}
		names = append(names, text)
	}
	return Finding{
		Check: check, Level: Note,
		What: "event triggers run for DDL: " + strings.Join(names, ", "),
		Why: "one that refuses CREATE DOMAIN in pg_temp makes waiters hold a snapshot, which holds back vacuum; one that " +
			"refuses CREATE SCHEMA or CREATE FUNCTION makes pglock migrate up fail",
		Do: "let it allow objects in pg_temp and schema pglock",
	}
}

// lockWaits checks that the server logs waits, including those that a monitor misses.
func lockWaits(f facts) Finding {
	const check = "log-lock-waits"
	setting, known := f.settings[logLockWaits]
	if !known || setting.Setting == "on" {
		what := "the server logs waits that outlast deadlock_timeout"
		if f.connection.Version >= 190000 {
			what += "; in PostgreSQL 19 the view pg_stat_lock counts waits by the type of lock"
		}
		return Finding{Check: check, Level: OK, What: what}
	}
	return Finding{
		Check: check, Level: Note,
		What: "log_lock_waits is off, which was the default before PostgreSQL 19",
		Why:  "with it the server's log names the waiters and holders of waits that outlast deadlock_timeout, even at night",
		Do:   "turn it on (on a managed server in its parameter group); it costs nothing while there are no long waits",
		SQL:  []string{"ALTER SYSTEM SET log_lock_waits = on", "SELECT pg_reload_conf()"},
	}
}
