package once

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/options"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/internal/records"
)

// Prune deletes the records that are older than keep, a thousand per transaction. Their ids then count as new. Choose
// keep well above the time in which duplicates may arrive: the retention of the queue, or the days for which clients
// repeat a request. It must also exceed the longest transaction, as a record's age counts from its insertion, by the
// server's clock. Prune waits for no other transaction, and any number of processes may call it.
//
// The role needs the privileges of migrations.LockerGrants or WatcherGrants, and EXECUTE on pglock.once_prune, which
// lets it delete records of any age. keep must be at least a second.
func Prune(ctx context.Context, db pglock.DB, keep time.Duration, opts ...Option) error {
	switch {
	case db == nil:
		return errors.New("pglock/once: prune: the DB is nil")
	case keep < time.Second:
		return fmt.Errorf("pglock/once: prune: keep is %v, and must be at least a second", keep)
	}
	var c config
	if err := options.Apply(&c, opts); err != nil {
		return fmt.Errorf("pglock/once: prune: %w", err)
	}
	queries := newQueries(db, c.owners)
	err := records.Delete(ctx, func(most int32) (int64, error) {
		return queries.OncePrune(ctx, lockdb.OncePruneParams{Keep: records.Interval(keep), Most: most})
	})
	if err != nil {
		return fmt.Errorf("pglock/once: prune: %w", err)
	}
	return nil
}
