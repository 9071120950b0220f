package once

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pglock-toolkit/pglock/internal/options"
	"github.com/pglock-toolkit/pglock/internal/timing"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/internal/records"
)

// Prune deletes the records of work that was committed longer than keep ago; the same ids are new again after that. No
// record is deleted earlier, and if Prune is called at least every eighth of keep, none is kept longer than about 1¾
// times keep, as long as transactions end. Choose keep well above the time in which duplicates may still arrive: the
// retention of the queue, or the days for which clients may repeat a request.
//
// Records are in four partitions, used in turn. An old one is truncated as a whole, so a hundred million records cost
// no more than one. A truncation waits for open transactions that have used this package, and later transactions would
// wait behind it. So each attempt gives up after 50 ms, and Prune tries again for some seconds in all. After that the
// error matches [pglock.ErrNotAcquired]: a transaction has stayed open, or another Prune is running. The next call
// continues. Any number of processes may call Prune.
//
// The role needs the privileges of migrations.PrunerGrants. keep must be at least a second.
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
	queries := queries(db, c.owners)
	for tries := 0; ; {
		var said string
		err := records.Again(ctx, func() (err error) {
			said, err = queries.OncePrune(ctx, records.Interval(keep))
			return err
		})
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
		if !timing.Sleep(ctx, prunePause/2+rand.N(prunePause)) {
			return fmt.Errorf("pglock/once: prune: %w", context.Cause(ctx))
		}
	}
}

// While a truncation waits, others wait behind it, so the pauses are much longer than its 50 ms.
const (
	pruneTries = 10
	prunePause = 250 * time.Millisecond
)
