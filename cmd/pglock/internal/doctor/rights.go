package doctor

import (
	"errors"
	"fmt"

	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

func temporary(f facts) Finding {
	if f.connection.MayUseTemp {
		return Finding{Check: "temp", Level: OK, What: "the role may make temporary objects, so waiting holds no snapshot"}
	}
	return Finding{
		Check: "temp", Level: Warning,
		What: fmt.Sprintf("role %s may not make temporary objects in the database", quote(f.connection.Role)),
		Why: "a Locker needs one to wait without a snapshot. Otherwise waiters hold back vacuum, and CREATE INDEX " +
			"CONCURRENTLY waits for them",
		Do: "grant the right",
		SQL: []string{fmt.Sprintf("GRANT TEMPORARY ON DATABASE %s TO %s",
			quote(f.connection.Database), quote(f.connection.Role))},
	}
}

const needSchema = "locks in rows, names in the monitor, Fence, and packages schedule, once and ratelimit"

func schema(f facts) Finding {
	const check = "schema"
	latest := migrations.Latest()
	switch s := f.schema; {
	case s.missing():
		return Finding{
			Check: check, Level: Note,
			What: "schema pglock is not installed in the database",
			Why:  "plain locks do not need it; " + needSchema + " do",
			Do:   "run: pglock migrate up",
		}
	case errors.Is(s.err, migrations.ErrForeignSchema):
		return Finding{
			Check: check, Level: Warning,
			What: "the database has a schema pglock that pglock did not create",
			Why:  needSchema + " are not available",
			Do:   "rename that schema, or use another database",
		}
	case errors.Is(s.err, driver.ErrUntrusted):
		return Finding{
			Check: check, Level: Warning,
			What: "the version of schema pglock was not read, since it is not trusted",
			Why:  needSchema + " may not work for this role",
			Do:   "see the finding about trust",
		}
	case s.err != nil:
		return Finding{
			Check: check, Level: Warning,
			What: "the version of schema pglock cannot be read: " + s.err.Error(),
			Why:  needSchema + " may not work",
			Do:   "see the error",
		}
	case s.version > latest:
		return Finding{
			Check: check, Level: Note,
			What: fmt.Sprintf("schema pglock has version %d, and this pglock supports only %d", s.version, latest),
			Why:  "a newer pglock installed it, which works with this one",
			Do:   "upgrade this pglock when convenient",
		}
	}
	return Finding{Check: check, Level: OK, What: fmt.Sprintf("schema pglock has version %d, the newest", latest)}
}

// lockerRights checks rights of a role that takes locks, which plain locks do not need.
func lockerRights(f facts) []Finding {
	if f.schema.err != nil {
		return nil
	}
	return []Finding{right("locker-grants", f.schema.MayLock, "the role may record names and draw fencing tokens",
		Finding{
			What: fmt.Sprintf("role %s may not record names and draw fencing tokens", quote(f.connection.Role)),
			Why:  "WithNames and Fence need it; plain locks do not",
			Do:   "if this role takes locks, have the owner of schema pglock run",
			SQL:  statements(migrations.LockerGrants(f.connection.Role)),
		})}
}

// watcherRights checks rights of a role that watches and ends sessions.
func watcherRights(f facts) []Finding {
	role := quote(f.connection.Role)
	var all []Finding
	if installed := f.schema.err == nil; installed {
		all = append(all,
			right("watcher-grants", f.schema.MayWatch, "the role may read the names of locks",
				Finding{
					What: fmt.Sprintf("role %s may not read the names of locks", role),
					Why:  "it sees numbers in the monitor instead of names",
					Do:   "if this role watches, have the owner of schema pglock run",
					SQL:  statements(migrations.WatcherGrants(f.connection.Role)),
				}),
		)
	}
	return append(all,
		right("pg_read_all_stats", f.connection.SeesDetails, "the role may see the details of all sessions",
			f.explainSetRole(Finding{
				What: fmt.Sprintf("role %s may not see the details of other roles' sessions", role),
				Why: "the monitor does not show their states and times, and pglock terminate recognizes a session " +
					"only by its user, application and keys",
				Do:  "if this role watches, grant membership",
				SQL: []string{"GRANT pg_read_all_stats TO " + role},
			})),
		right("pg_signal_backend", f.connection.MaySignal, "the role may end other roles' sessions",
			f.explainSetRole(Finding{
				What: fmt.Sprintf("role %s may not end other roles' sessions", role),
				Why:  "pglock cancel and pglock terminate need it for sessions of roles that it is not a member of",
				Do:   "if this role has to end sessions, grant membership",
				SQL:  []string{"GRANT pg_signal_backend TO " + role},
			})),
	)
}

// explainSetRole changes the advice about a right that the session may lack only because of SET ROLE.
func (f facts) explainSetRole(missing Finding) Finding {
	login := quote(f.connection.Login)
	if f.connection.Login == f.connection.Role {
		return missing
	}
	missing.What += fmt.Sprintf(", and SET ROLE has replaced role %s, which has logged in", login)
	missing.Do = fmt.Sprintf("have the connection string set role=none, so that role %s has its own rights, or find out where "+
		"ALTER DATABASE or ALTER ROLE sets role", login)
	missing.SQL = nil
	return missing
}

// right returns a note about a missing right.
func right(check string, has bool, what string, missing Finding) Finding {
	if has {
		return Finding{Check: check, Level: OK, What: what}
	}
	missing.Check, missing.Level = check, Note
	return missing
}
