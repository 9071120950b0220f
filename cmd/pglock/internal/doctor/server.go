package doctor

import (
	"fmt"
)

func cockroach(f facts) Finding {
	return Finding{
		Check: "server", Level: Problem,
		What: fmt.Sprintf("the server is CockroachDB (%s)", f.cockroach),
		Why:  "its advisory lock functions exist but lock nothing; pglock refuses it",
		Do:   "use a PostgreSQL server for locks, or pglock's Redis backend",
	}
}

func probe(f facts) Finding {
	if f.lockWorks {
		return Finding{Check: "server", Level: OK, What: "an advisory lock can be taken, and pg_locks shows it"}
	}
	return Finding{
		Check: "server", Level: Problem,
		What: "an advisory lock that was granted is not in pg_locks",
		Why:  "the server does not keep advisory locks as PostgreSQL does, so they may lock nothing",
		Do:   "ask its vendor whether advisory locks work, and in which version",
	}
}

func proxy(f facts) Finding {
	if f.connection.Pid == f.keyDataPID {
		return Finding{Check: "proxy", Level: OK, What: "the connection is direct: no proxy shares server sessions among clients"}
	}
	return Finding{
		Check: "proxy", Level: Problem,
		What: fmt.Sprintf("there is a proxy: the connection was made to process %d, but process %d answers",
			f.keyDataPID, f.connection.Pid),
		Why: "one that shares server sessions among clients (PgBouncer's transaction pooling, PgDog, pgcat, Supavisor, multigres, " +
			"SPQR and others) gives the locks of a session to the next client; a Locker refuses it with ErrPooler. Proxies " +
			"that keep a session for a client that takes an advisory lock, as PgDog and multigres do, do not see locks " +
			"taken by pg_catalog-qualified calls or in PL/pgSQL, as pglock takes them. Locks in transactions work",
		Do: "connect Lockers, and programs that take session locks, to the server's own address; or keep the locks in rows (package " +
			"rowlock, --rows of pglock run), which pass every proxy; if the proxy is known to keep a " +
			"session for each client (session pooling), let Lockers accept it: AllowPooler in Go, --allow-pooler of pglock run; and " +
			"run doctor with --ignore proxy",
	}
}

func standby(f facts) Finding {
	if !f.connection.Standby {
		return Finding{Check: "standby", Level: OK, What: "the server is a primary"}
	}
	return Finding{
		Check: "standby", Level: Problem,
		What: "the server is a hot standby",
		Why: "advisory locks work there, but exclude no sessions on the primary or another standby; pglock refuses it with " +
			"ErrStandby",
		Do: "connect to the primary (target_session_attrs=read-write finds it among several hosts)",
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
