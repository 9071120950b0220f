// Package pglock takes PostgreSQL advisory locks: inside a transaction that you already have, or held across
// transactions and processes.
//
// # Inside a transaction
//
// [LockTx] and its relatives take pg_advisory_xact_lock in a [pgx.Tx]; commit or rollback frees it. Nothing needs to
// be installed or configured. It costs one round trip (none in a batch, with [QueueLockTx]), and works through
// transaction poolers. If the work is one transaction, this is the lock to use.
//
// # Across transactions and processes
//
// A [Locker] dials its own server sessions and holds locks on them: [Locker.Lock], [Locker.TryLock],
// [Locker.LockAll], and [Locker.Do], which does the bookkeeping. The [Lock] says when it ends: run the work under
// [Lock.Context]. A Locker refuses the address of a transaction pooler: give it a direct one ([NewWithConfig]), or
// keep its locks in rows (package rowlock). What follows is about locks of sessions. Package rowlock, and
// docs/guarantees.md, say what differs.
//
// # Keys
//
// A lock has a [Key]: a name, which PostgreSQL sees as a 64-bit hash, or a raw number. psql, triggers and other
// languages take the same lock with pglock.key('name'), a function that package migrations installs, or with the number
// that "pglock key NAME" prints.
//
// # What is guaranteed
//
// While a Lock's Err is nil and its server session lives, no other session holds the key in that database. A holder
// that falls silent (partition, frozen process, dead host) learns of it, through Context, Done and Err, before the
// server can grant the lock to the next: the server ends a session that has been silent for one lease (15 s by
// default, see [WithLease]). The client stops trusting it a tenth of the lease earlier, counted from the sending of
// the last answered message.
//
// When Lock returns an error, the caller holds nothing and has nothing to unlock. After [ErrUnavailable] a late
// request may still be granted; the server frees it within one lease.
//
// # What is not
//
// If the server ends a session (pg_terminate_backend, a restart, a failover), its holder learns of it one network delay
// later, so two holders may briefly overlap. Protect database writes with [Lock.GuardTx] and other effects with
// [Lock.Fence].
//
// The guarantees do not cover forward jumps of the server's wall clock. Nor do they cover a virtual machine between
// the end of a pause and its first look at the clock. Locks are per database, and on multi-primary systems per
// server. Locks are not stored: after a failover the new primary has none.
//
// PostgreSQL cannot see deadlocks between locks that one process holds on several sessions. [Locker.Lock] says which of
// them this package ends; the others wait for ever. To take several keys, use [Locker.LockAll], or bound the wait with
// [MaxWait].
//
// # What lives elsewhere
//
// Packages rowlock and redisfallback make Lockers whose locks are in rows of PostgreSQL, or on Redis. Package
// monitor shows holders and waiters. Package migrations installs the schema, for names, fencing, locks in rows and
// the SQL functions. Package driver is the contract for other backends. Package locktest has an in-memory Locker for
// unit tests.
package pglock
