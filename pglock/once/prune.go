package once

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/internal/records"
)

// DB is a pool or a connection. It is not a transaction.
type DB interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// Prune forgets what was done longer than keep ago, counted from the commit; the same ids are firsts again then. Nothing
// is forgotten earlier, and by calls that come at least every eighth of keep nothing is kept longer than about 1¾ times
// keep, as long as transactions end. Choose keep well above the time in which duplicates may still come: the retention
// of the queue, the days for which clients may repeat a request.
//
// Records are in four partitions that are used one after the other, and old ones are truncated whole, so a hundred
// million records cost no more than one. A truncation waits for the transactions that have used this package, and those
// that come after would wait behind it; so it gives up after 50 ms and is tried again, for some seconds in all. Then the
// error matches [pglock.ErrNotAcquired]: a transaction stays open, or another Prune is at it, and the next call goes on.
// Any number of processes may call it.
//
// The role needs the right to (migrations.PrunerGrants). keep must be a second or more. Of the options [WithTrustedOwner] says
// something here.
func Prune(ctx context.Context, db DB, keep time.Duration, opts ...Option) error {
	_, isTx := db.(pgx.Tx)
	switch {
	case db == nil:
		return errors.New("pglock/once: prune: the DB is nil")
	case isTx:
		return errors.New("pglock/once: prune: the DB is a transaction, and each step needs one of its own")
	case keep < time.Second:
		return fmt.Errorf("pglock/once: prune: keep is %v, and must be a second or more", keep)
	}
	c, err := options(opts)
	if err != nil {
		return fmt.Errorf("pglock/once: prune: %w", err)
	}
	queries := c.queries(db)
	for tries := 0; ; {
		said, err := queries.OncePrune(ctx, records.Interval(keep))
		switch {
		case err != nil:
			return fmt.Errorf("pglock/once: prune: %w", records.Unavailable(ctx, err))
		case said == done:
			return nil
		case said != held:
			continue // there is more
		}
		if tries++; tries == pruneTries {
			return fmt.Errorf("pglock/once: prune: %w: old records are in use by transactions that stay open, or by another "+
				"Prune; call it again later", pglock.ErrNotAcquired)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("pglock/once: prune: %w", context.Cause(ctx))
		case <-time.After(prunePause/2 + rand.N(prunePause)):
		}
	}
}

// While a truncation waits others wait behind it, so the pauses are much longer than its 50 ms.
const (
	pruneTries = 10
	prunePause = 250 * time.Millisecond
)
