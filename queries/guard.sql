-- Transactions that cannot commit what a lost lock should have protected.
--
-- Two keys, the companions, belong to each key of a lock: one for transactions guarded by exclusive locks, one for those
-- guarded by shared locks. A guarded transaction holds its companion, shared, until it ends; so those of one holder run
-- side by side. Before the first one of a Lock begins, it waits until the transactions of earlier holders have ended: it
-- takes the companions exclusively, and gives them back at once by the end of a savepoint.
--
-- Then it proves that the lock was held after the companion was. Each lock session holds an identity: a pair key of one
-- class. If a shared lock on it is granted, the session has ended, and the statement raises an error. A session that
-- ends frees its identity first of all (internal/lockkeys), so a session that was granted the key afterwards finds it
-- free. Only a session outside this library that has waited for this very key could hold it, so the session itself is
-- asked last.
--
-- On two servers two sessions can have the same identity: there are 32,768 of them in a database. So the statement also
-- compares the server, by when it was started, and the database with those of the session, as fencing.sql does.
--
-- There are two cases. If the earlier holder's transaction passed the guard, it held its companion at a moment at which
-- its lock was held. So the next holder, whose lock is younger, finds the companion taken, and waits until that
-- transaction has ended. If it comes later, its session has ended by then, and it does not pass.
--
-- The caller's transaction may have any search_path: every function, type and operator is written with its schema.

-- The next two are sent between a savepoint and the guard itself, in one message.
-- name: BeginAwaitEarlier :exec
SAVEPOINT pglock_guard;

-- name: AwaitEarlier :exec
SELECT WHERE CASE
    WHEN NOT pg_catalog.starts_with(pg_catalog.current_setting('transaction_isolation'), 'read ') THEN false
    ELSE (SELECT pg_catalog.count(pg_catalog.pg_advisory_xact_lock(c))
          FROM pg_catalog.unnest(@companions::pg_catalog.int8[]) AS c) IS NULL
END;

-- name: EndAwaitEarlier :exec
ROLLBACK TO SAVEPOINT pglock_guard;

-- name: ForgetAwaitEarlier :exec
RELEASE SAVEPOINT pglock_guard;

-- One row says that the transaction is guarded. No row says that its snapshot is older than the lock; nothing was locked
-- then. The parts of a CASE are evaluated in their order, and so are scalar subqueries in them.
-- name: GuardTx :execrows
SELECT true AS guarded
WHERE CASE
    WHEN NOT pg_catalog.starts_with(pg_catalog.current_setting('transaction_isolation'), 'read ') THEN false
    WHEN (SELECT pg_catalog.count(pg_catalog.pg_advisory_xact_lock_shared(c))
          FROM pg_catalog.unnest(@companions::pg_catalog.int8[]) AS c) IS NULL THEN false
    WHEN pg_catalog.concat((pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time())
            OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8, '/', pg_catalog.current_database()) OPERATOR(pg_catalog.<>) @server::pg_catalog.text
        THEN pg_catalog.current_setting('pglock_lost') IS NULL
    WHEN NOT pg_catalog.pg_try_advisory_xact_lock_shared(@class::pg_catalog.int4, @object::pg_catalog.int4) THEN true
    ELSE pg_catalog.current_setting('pglock_lost') IS NULL
END;

-- For a lock whose loss is known without asking: the transaction must not be able to commit either.
-- name: AbortGuarded :exec
SELECT pg_catalog.current_setting('pglock_lost');
