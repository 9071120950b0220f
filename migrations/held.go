package migrations

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
)

// noLocksInRows returns an error if a process holds locks in rows and its lease is not over.
//
// It looks twice: first without a lock, so that where it fails no process has waited for it, and then with all calls of
// package rowlock locked out until the transaction ends. A process that takes a lock meanwhile wins if it commits before
// that: the second look sees its lock. Otherwise it finds no schema, and has no lock.
func (s schema) noLocksInRows(ctx context.Context, tx pgx.Tx) error {
	queries := lockdb.New(unprepared{tx})
	if err := s.noneHeld(ctx, queries); err != nil {
		return err
	}
	for _, lock := range []string{lockFence, lockdb.LockHolders} {
		if _, err := tx.Exec(ctx, lock, pgx.QueryExecModeExec); err != nil {
			return fmt.Errorf("lock schema pglock: %w", err)
		}
	}
	return s.noneHeld(ctx, queries)
}

// lockFence changes nothing, and waits for all that use the schema: they lock the sequence first.
const lockFence = "ALTER SEQUENCE pglock.fence OWNED BY NONE"

func (s schema) noneHeld(ctx context.Context, queries *lockdb.Queries) error {
	held, err := queries.LiveHolder(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("look for locks in rows: %w", err)
	case len(held) == 0:
		return nil
	}
	h, others := held[0], ""
	if h.Processes > 1 {
		others = fmt.Sprintf(", and more by %d others", h.Processes-1)
	}
	return fmt.Errorf("locks in rows of database %q are held: %d by process %s (%q, process %d on %q)%s. They would end while their "+
		"holders go on: stop these processes, end them (pglock terminate, --holder %[3]s), or wait until their leases are over",
		s.Database, h.Locks, h.Holder, h.Application, h.Pid, h.Host, others)
}
