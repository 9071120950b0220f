// Package migrations installs schema pglock, which plain locks do not need. The schema provides names for the monitor,
// fencing tokens, and the same locks in psql, triggers and other languages:
//
//	pglock.key(text)       the lock number of a name: SELECT pg_advisory_xact_lock(pglock.key('invoice:42'))
//	pglock.register(…)     records names, so that they can be shown; at most 1024 bytes each
//	pglock.names           the names that were recorded
//	pglock.fence_draw(…)   draws fencing tokens from the sequence pglock.fence
//	pglock.locks           who holds which advisory lock of this database, and who waits
//	pglock.waits           who waits for whom
//	pglock.blockers        who is at the root of the waits of the server, for locks of all types
//	pglock.jobs, .runs     which jobs have run, and when (package schedule); written by pglock.tick(…)
//	pglock.once(…)         says who is the first to do something (package once); pglock.once_prune(…) deletes old records
//	pglock.rate_take(…)    rate limits (package ratelimit)
//	pglock.lease_call(…)   locks in rows of pglock.leases (package rowlock)
//	pglock.row_locks       who holds which of those, and who waits; pglock.lease_terminate(…) ends one of these processes
//
// [Up] installs the schema, [Down] removes it, [Version] returns its version. They work in one transaction that holds a
// lock of pglock's own: everything happens or nothing does, any number of processes may call Up at once, they work
// through a transaction pooler, and need one connection. The version is that of pglock.toolkit_version(), in no table.
// They must run on the primary.
//
// With another tool (golang-migrate, goose, dbmate, Atlas, tern, psql) run the file of [FS] in one transaction. Up and
// Version know then that it has been applied. Only functions contain semicolons, between dollar quotes.
//
// # Names
//
// pglock.names has a row for each name that was ever recorded, and nothing removes one. A role that may call
// pglock.register can thus fill the disk. The role that owns the schema may delete rows at any time, such as DELETE
// FROM pglock.names WHERE first_seen < now() - interval '90 days'. No lock depends on them; a lock whose name is not
// there is shown by its number.
//
// # Rights
//
// A schema pglock that exists already is refused, even if it is empty: its creator may need it. Do not create it
// beforehand; grant the right to create it.
//
// Installing needs the right to create a schema (GRANT CREATE ON DATABASE); removing needs the role that owns it. At
// first no other role may do anything in the schema. A role that takes locks needs these grants, for fencing tokens,
// for names, for keys in SQL, and for the packages that are built on locks. [LockerGrants] returns them for any role:
//
//	GRANT USAGE ON SCHEMA pglock TO "app";
//	GRANT EXECUTE ON FUNCTION pglock.key, pglock.register, pglock.fence_draw, pglock.tick TO "app";
//	GRANT EXECUTE ON FUNCTION pglock.once, pglock.once_record TO "app";
//	GRANT EXECUTE ON FUNCTION pglock.rate_take, pglock.rate_return, pglock.rate_prune TO "app";
//	GRANT EXECUTE ON FUNCTION pglock.lease_open, pglock.lease_renew, pglock.lease_end, pglock.lease_call TO "app";
//	GRANT EXECUTE ON FUNCTION pglock.lease_settle, pglock.lease_holds, pglock.lease_fence TO "app";
//	GRANT EXECUTE ON FUNCTION pglock.lease_guard, pglock.lease_holders, pglock.lease_rows, pglock.lease_waits, pglock.lease_prune TO "app";
//	GRANT USAGE ON SEQUENCE pglock.fence TO "app";
//
// A role that watches needs these ([WatcherGrants]). PostgreSQL shows it the state and address of other roles' sessions
// when it is a member of pg_read_all_stats too:
//
//	GRANT USAGE ON SCHEMA pglock TO "watcher";
//	GRANT SELECT ON TABLE pglock.locks, pglock.waits, pglock.blockers, pglock.row_locks TO "watcher";
//	GRANT SELECT ON TABLE pglock.names, pglock.jobs, pglock.runs TO "watcher";
//	GRANT EXECUTE ON FUNCTION pglock.written, pglock.semaphore_of, pglock.find_blockers TO "watcher";
//	GRANT SELECT ON SEQUENCE pglock.fence TO "watcher";
//
// Beside the owner, roles keep only these kinds of rights: USAGE on the schema, EXECUTE on functions, SELECT on
// tables and views, and SELECT and USAGE on sequences. With TRIGGER, REFERENCES or CREATE a role's code can run as the
// owner, and with INSERT, UPDATE, DELETE or TRUNCATE the role changes what was recorded. Such rights usually come from
// ALTER DEFAULT PRIVILEGES, so they are taken away when the schema is made. If a role gets one later, the schema is not
// used until it is taken away, as by [Up] of the owner.
//
// A right on pglock.fence lets a role keep the schema in place while it uses it. [Version], and Up when there is
// nothing to do, need no rights.
//
// # Trust
//
// Roles that use a schema may execute, with their own rights, code of its owner, or of a role that may attach
// something to it. So a schema pglock is used only under three conditions. It and all in it belongs to the current
// role, a superuser or a role that the program names. No other role has more rights on it than those above. It has
// nothing, in it or attached to it, that pglock did not make. If a different role runs the migrations, such as
// "migrator" instead of the application's "app", the application says so with one option:
//
//	locker, err := pglock.New(pool, pglock.WithNames(), pglock.WithTrustedOwner("migrator"))
//
// The functions of this package take [WithTrustedOwner], package monitor has an option of the same name, and the
// command pglock has the flag --trust-owner.
package migrations
