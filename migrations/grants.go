package migrations

import (
	"fmt"

	"github.com/jackc/pgx/v5"
)

const lockerGrants = `GRANT USAGE ON SCHEMA pglock TO %[1]s;
GRANT EXECUTE ON FUNCTION pglock.key, pglock.register, pglock.fence_draw, pglock.tick TO %[1]s;
GRANT EXECUTE ON FUNCTION pglock.once, pglock.once_record TO %[1]s;
GRANT EXECUTE ON FUNCTION pglock.rate_take, pglock.rate_return, pglock.rate_prune TO %[1]s;
GRANT EXECUTE ON FUNCTION pglock.lease_open, pglock.lease_renew, pglock.lease_end, pglock.lease_call TO %[1]s;
GRANT EXECUTE ON FUNCTION pglock.lease_settle, pglock.lease_holds, pglock.lease_fence TO %[1]s;
GRANT EXECUTE ON FUNCTION pglock.lease_guard, pglock.lease_holders, pglock.lease_rows, pglock.lease_waits, pglock.lease_prune TO %[1]s;
GRANT USAGE ON SEQUENCE pglock.fence TO %[1]s;
`

const watcherGrants = `GRANT USAGE ON SCHEMA pglock TO %[1]s;
GRANT SELECT ON TABLE pglock.locks, pglock.waits, pglock.blockers, pglock.row_locks TO %[1]s;
GRANT SELECT ON TABLE pglock.names, pglock.jobs, pglock.runs TO %[1]s;
GRANT EXECUTE ON FUNCTION pglock.written, pglock.semaphore_of, pglock.find_blockers TO %[1]s;
GRANT SELECT ON SEQUENCE pglock.fence TO %[1]s;
`

// LockerGrants returns the SQL that grants role what it needs in the schema to take locks: to compute keys, record
// names and draw fencing tokens, and to use packages rowlock, schedule, once and ratelimit. With these grants the role
// can neither read the names nor see through the schema's views who holds what. The schema's owner must run it.
//
// If the owner is no superuser, programs that use the role must also say that they trust the owner, whose functions
// they will execute: with pglock.WithTrustedOwner for Lockers, [WithTrustedOwner] here.
func LockerGrants(role string) string { return fmt.Sprintf(lockerGrants, quote(role)) }

// WatcherGrants returns the SQL that lets role read the views and the names, and change nothing. The schema's owner
// must run it.
func WatcherGrants(role string) string { return fmt.Sprintf(watcherGrants, quote(role)) }

func quote(identifier string) string { return pgx.Identifier{identifier}.Sanitize() }
