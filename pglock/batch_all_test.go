package pglock_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// batchAll are the ways to take several locks in a batch.
var batchAll = map[string]func(b *pgx.Batch, keys []pglock.Key, opts ...pglock.TxOption) *pgx.QueuedQuery{
	"QueueLockAllTx": pglock.QueueLockAllTx,
	"a try":          tryAll,
	"QueueLockAllTx with MaxWait": func(b *pgx.Batch, keys []pglock.Key, opts ...pglock.TxOption) *pgx.QueuedQuery {
		return pglock.QueueLockAllTx(b, keys, append(slices.Clone(opts), pglock.MaxWait(txLong))...)
	},
}

func tryAll(b *pgx.Batch, keys []pglock.Key, opts ...pglock.TxOption) *pgx.QueuedQuery {
	return pglock.QueueLockAllTx(b, keys, append(slices.Clone(opts), pglock.MaxWait(0))...)
}

func TestBatchOfSeveralLocksIsOneStatement(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	keys := []pglock.Key{pglock.PairKey(7, -42), pglock.Int64Key(-1), pglock.NewKey("a"), pglock.Int64Key(-1)}
	for name, queue := range batchAll {
		for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol} {
			for want, opts := range map[string][]pglock.TxOption{"exclusive": nil, "share": {pglock.Shared()}} {
				t.Run(fmt.Sprintf("%s/%s/%s", name, mode, want), func(t *testing.T) {
					conn, _ := batchConn(t, db.ConnString(), mode)
					batch := &pgx.Batch{}
					batch.BeginTx(pgx.TxOptions{})
					queue(batch, keys, opts...)
					if batch.Len() != 2 {
						t.Errorf("the batch has %d statements", batch.Len())
					}
					results := conn.SendBatch(t.Context(), batch)
					txCheck(t, results.Close())
					txWantLocks(t, db, "@-3848465438864589366 "+want, "@-1 "+want, "@7/-42 "+want)
					if got := must.One[string](t, conn, "SHOW lock_timeout"); got != "0" {
						t.Errorf("lock_timeout is %s afterwards", got)
					}
					txCheck(t, results.Tx().Rollback(t.Context()))
				})
			}
		}
	}
}

func TestBatchOfSeveralLocksTakesThemInOneOrder(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	ordered := []pglock.Key{pglock.Int64Key(-5), pglock.Int64Key(3), pglock.PairKey(-1, 0), pglock.PairKey(1, -9)}
	for _, name := range []string{"QueueLockAllTx", "QueueLockAllTx with MaxWait"} {
		for i := range ordered {
			holder, conn := txHold(t, db, ordered[i]), db.Connect(t)
			tx := txBegin(t, conn)
			keys := slices.Clone(ordered)
			slices.Reverse(keys)
			result := txGo(func() error {
				batch := &pgx.Batch{}
				batchAll[name](batch, keys)
				return tx.SendBatch(t.Context(), batch).Close()
			})
			db.WaitForWaiters(t, 1)
			if got := txHeldBy(t, db, tx); got != i {
				t.Errorf("%s holds %d keys while it waits for number %d", name, got, i)
			}
			txCheck(t, holder.Rollback(t.Context()))
			txCheck(t, <-result)
			txCheck(t, tx.Rollback(t.Context()))
		}
	}
}

func TestBatchOfSeveralLocksIsRefusedAsAWhole(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	batchTable(t, db)
	held := pglock.NewKey("held")
	txHold(t, db, held)
	keys := []pglock.Key{pglock.NewKey("a"), held, pglock.PairKey(1, 1)}
	short := func(b *pgx.Batch, keys []pglock.Key, opts ...pglock.TxOption) *pgx.QueuedQuery {
		return pglock.QueueLockAllTx(b, keys, append(opts, pglock.MaxWait(txShort))...)
	}
	try := func(b *pgx.Batch, keys []pglock.Key, opts ...pglock.TxOption) *pgx.QueuedQuery {
		return pglock.QueueLockTx(b, held, append(slices.Clone(opts), pglock.MaxWait(0))...)
	}
	one := func(b *pgx.Batch, _ []pglock.Key, opts ...pglock.TxOption) *pgx.QueuedQuery {
		return pglock.QueueLockTx(b, pglock.NewKey("a"), opts...)
	}
	for _, mode := range txModes {
		for name, c := range map[string]struct {
			begin pgx.TxOptions
			queue func(*pgx.Batch, []pglock.Key, ...pglock.TxOption) *pgx.QueuedQuery
			match error
		}{
			"try of one":            {pgx.TxOptions{}, try, pglock.ErrNotAcquired},
			"try of several":        {pgx.TxOptions{}, tryAll, pglock.ErrNotAcquired},
			"MaxWait":               {pgx.TxOptions{}, short, pglock.ErrNotAcquired},
			"stale":                 {pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, pglock.QueueLockAllTx, pglock.ErrStaleSnapshot},
			"stale, try":            {pgx.TxOptions{IsoLevel: pgx.Serializable}, tryAll, pglock.ErrStaleSnapshot},
			"stale, MaxWait":        {pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, short, pglock.ErrStaleSnapshot},
			"stale, one":            {pgx.TxOptions{IsoLevel: pgx.Serializable}, one, pglock.ErrStaleSnapshot},
			"stale, try of one":     {pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, try, pglock.ErrStaleSnapshot},
			"read uncommitted, try": {pgx.TxOptions{IsoLevel: pgx.ReadUncommitted}, try, pglock.ErrNotAcquired},
		} {
			t.Run(fmt.Sprintf("%s/%s", mode, name), func(t *testing.T) {
				conn, _ := batchConn(t, db.ConnString(), mode)
				results := conn.SendBatch(t.Context(), batchOfWork(c.begin, func(b *pgx.Batch) { c.queue(b, keys) }))
				if err := results.Close(); !errors.Is(err, c.match) || !strings.Contains(err.Error(), "lock ") ||
					strings.Contains(err.Error(), "lock timeout") { // which the caller did not set
					t.Errorf("the error is %v, want %v", err, c.match)
				}
				txWantAborted(t, conn)
				txCheck(t, results.Tx().Rollback(t.Context()))
			})
		}
	}
	txWantLocks(t, db, fmt.Sprintf("@%d exclusive", held.Int64()))
	batchWantDone(t, db, 0)
}

func TestBatchOfNoLocksIsNotSent(t *testing.T) {
	t.Parallel()
	conn := testenv.Database(t).Connect(t)
	for name, queue := range map[string]func(*pgx.Batch){
		"no keys":      func(b *pgx.Batch) { pglock.QueueLockAllTx(b, nil) },
		"the zero Key": func(b *pgx.Batch) { pglock.QueueLockTx(b, pglock.Key{}, pglock.MaxWait(0)) },
	} {
		batch := &pgx.Batch{}
		queue(batch)
		if err := conn.SendBatch(t.Context(), batch).Close(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}
