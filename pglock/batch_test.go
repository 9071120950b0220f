package pglock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// batchConn is a connection in an execution mode.
func batchConn(t *testing.T, connString string, mode pgx.QueryExecMode) (*pgx.Conn, *txRoundTrips) {
	t.Helper()
	var trips *txRoundTrips
	conn := txConnect(t, connString, func(config *pgx.ConnConfig) {
		config.DefaultQueryExecMode = mode
		trips = txCountRoundTrips(config)
	})
	return conn, trips
}

// batchOfWork is begin, the lock, and work that writes one row.
func batchOfWork(begin pgx.TxOptions, lock func(*pgx.Batch)) *pgx.Batch {
	batch := &pgx.Batch{}
	batch.BeginTx(begin)
	if lock != nil {
		lock(batch)
	}
	batch.Queue("INSERT INTO done VALUES ($1)", 1)
	return batch
}

func batchTable(t *testing.T, db *testenv.DB) {
	t.Helper()
	txExec(t, db.Connect(t), "CREATE TABLE done (n int)")
}

func batchWantDone(t *testing.T, db *testenv.DB, want int) {
	t.Helper()
	n := must.One[int](t, db.Connect(t), "SELECT count(*) FROM done")
	if n != want {
		t.Errorf("%d rows have been written, want %d", n, want)
	}
}

func TestBatchBeginLockAndWorkAreOneRoundTrip(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode        pgx.QueryExecMode
		first, then int // round trips; pgx needs one more to describe a statement that is new to it
	}{
		{pgx.QueryExecModeCacheStatement, 2, 1},
		{pgx.QueryExecModeCacheDescribe, 2, 1},
		{pgx.QueryExecModeDescribeExec, 2, 2},
		{pgx.QueryExecModeExec, 1, 1},
		{pgx.QueryExecModeSimpleProtocol, 1, 1},
	} {
		for name, opts := range map[string][]pglock.TxOption{
			"plain": nil, "options": {pglock.Shared(), pglock.MaxWait(txLong), pglock.AllowStaleSnapshot()},
		} {
			t.Run(fmt.Sprintf("%s/%s", c.mode, name), func(t *testing.T) {
				t.Parallel()
				db := testenv.Database(t)
				batchTable(t, db)
				locks := map[string]func(*pgx.Batch){
					"without a lock": nil,
					"with a lock":    func(b *pgx.Batch) { pglock.QueueLockTx(b, pglock.PairKey(7, -42), opts...) },
				}
				for work, lock := range locks {
					conn, trips := batchConn(t, db.ConnString(), c.mode)
					for i, want := range []int{c.first, c.then} {
						var results pgx.BatchResults
						got := trips.during(func() {
							results = conn.SendBatch(t.Context(), batchOfWork(pgx.TxOptions{}, lock))
							txCheck(t, results.Close())
						})
						if got != want {
							t.Errorf("batch %d %s took %d round trips, want %d", i+1, work, got, want)
						}
						if n := len(db.AdvisoryLocks(t)); (n == 1) != (lock != nil) {
							t.Errorf("batch %d %s has locked %d keys", i+1, work, n)
						}
						txCheck(t, results.Tx().Commit(t.Context()))
					}
				}
				batchWantDone(t, db, 4)
			})
		}
	}
}

func TestBatchLocksAsAnyClientAndThroughAPooler(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	for server, connString := range txServers(t, db) {
		for _, mode := range txModes {
			if server == txPooled && mode == pgx.QueryExecModeCacheStatement {
				continue // many poolers do not support named prepared statements
			}
			t.Run(fmt.Sprintf("%s/%s", server, mode), func(t *testing.T) {
				conn, _ := batchConn(t, connString, mode)
				batch := &pgx.Batch{}
				batch.BeginTx(pgx.TxOptions{})
				pglock.QueueLockTx(batch, pglock.PairKey(7, -42))
				pglock.QueueLockTx(batch, pglock.Int64Key(-1), pglock.MaxWait(txLong), pglock.Shared())
				results := conn.SendBatch(t.Context(), batch)
				txCheck(t, results.Close())
				txWantLocks(t, db, "@-1 share", "@7/-42 exclusive")
				txCheck(t, results.Tx().Commit(t.Context()))
				txWantLocks(t, db)
			})
		}
	}
}

func TestBatchResultsReadByHandNeedTxError(t *testing.T) {
	t.Parallel()
	read := map[string]func(pgx.BatchResults) error{
		"Exec": func(results pgx.BatchResults) error {
			_, err := results.Exec()
			return err
		},
		"Query": func(results pgx.BatchResults) error {
			rows, err := results.Query()
			rows.Close()
			return errors.Join(err, rows.Err())
		},
		"QueryRow": func(results pgx.BatchResults) error {
			var ignored *string
			return results.QueryRow().Scan(&ignored)
		},
	}
	db, key := testenv.Database(t), pglock.NewKey("held")
	for _, mode := range txModes {
		for how, read := range read {
			t.Run(fmt.Sprintf("%s/%s", mode, how), func(t *testing.T) {
				holder := txHold(t, db, key)
				conn, _ := batchConn(t, db.ConnString(), mode)
				send := func(begin pgx.TxOptions, opts ...pglock.TxOption) error {
					batch := &pgx.Batch{}
					batch.BeginTx(begin)
					pglock.QueueLockTx(batch, key, opts...)
					results := conn.SendBatch(t.Context(), batch)
					if _, err := results.Exec(); err != nil {
						t.Errorf("begin: %v", err)
					}
					err := read(results)
					if closed := results.Close(); (closed == nil) != (err == nil) {
						t.Errorf("the result is %v, that of Close %v", err, closed)
					}
					txCheck(t, results.Tx().Rollback(t.Context()))
					return err
				}
				stale := pgx.TxOptions{IsoLevel: pgx.RepeatableRead}
				if err := send(stale); !errors.Is(pglock.TxError(err), pglock.ErrStaleSnapshot) {
					t.Errorf("in REPEATABLE READ the error is %v", err)
				}
				err := send(pgx.TxOptions{}, pglock.MaxWait(txShort))
				if !errors.Is(pglock.TxError(err), pglock.ErrNotAcquired) {
					t.Errorf("after MaxWait the error is %v", err)
				}
				txCheck(t, holder.Commit(t.Context()))
				txCheck(t, send(pgx.TxOptions{}, pglock.MaxWait(txLong)))
			})
		}
	}
}

func TestBatchWithAnInvalidLockIsNotSent(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	batchTable(t, db)
	for _, mode := range txModes {
		t.Run(mode.String(), func(t *testing.T) {
			conn, trips := batchConn(t, db.ConnString(), mode)
			for text, lock := range map[string]func(*pgx.Batch){
				"the zero Key":             func(b *pgx.Batch) { pglock.QueueLockTx(b, pglock.Key{}) },
				"the duration is negative": func(b *pgx.Batch) { pglock.QueueLockTx(b, pglock.NewKey("a"), pglock.MaxWait(-1)) },
				"a TxOption is nil":        func(b *pgx.Batch) { pglock.QueueLockTx(b, pglock.NewKey("a"), nil) },
			} {
				n := trips.during(func() {
					results := conn.SendBatch(t.Context(), batchOfWork(pgx.TxOptions{}, lock))
					if err := results.Close(); err == nil || !strings.Contains(err.Error(), text) {
						t.Errorf("the error is %v, want %s", err, text)
					}
					if err := results.Tx().Commit(t.Context()); !errors.Is(err, pgx.ErrTxClosed) {
						t.Errorf("the commit: %v", err)
					}
				})
				if n != 0 {
					t.Errorf("%s: %d round trips", text, n)
				}
			}
			batchWantDone(t, db, 0)
		})
	}
}

// batchFake is a batch's results without a connection, as a caller's own test may have them.
type batchFake struct {
	pgx.BatchResults
	err error
}

func (f batchFake) Exec() (pgconn.CommandTag, error) { return pgconn.CommandTag{}, f.err }

func TestBatchAQueuedLockWorksWithoutAConnection(t *testing.T) {
	t.Parallel()
	query := pglock.QueueLockTx(&pgx.Batch{}, pglock.NewKey("a"))
	txCheck(t, query.Fn(batchFake{}))
	txWantWaitError(t, query.Fn(batchFake{err: context.Canceled}), pglock.NewKey("a"))
}
