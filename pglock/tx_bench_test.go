package pglock_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
)

// BenchmarkLockTx compares LockTx, which is parsed and planned each time so that its first use is one round trip, with
// the same statement prepared, and with the bare function prepared.
func BenchmarkLockTx(b *testing.B) {
	ctx, key := b.Context(), pglock.NewKey("invoice:42")
	for name, lock := range map[string]func(pgx.Tx) error{
		"LockTx":         func(tx pgx.Tx) error { return pglock.LockTx(ctx, tx, key) },
		"MaxWait":        func(tx pgx.Tx) error { return pglock.LockTx(ctx, tx, key, pglock.MaxWait(txLong)) },
		"prepared":       func(tx pgx.Tx) error { return benchPrepared(ctx, tx, key) },
		"bare, prepared": func(tx pgx.Tx) error { return benchBare(ctx, tx, key) },
	} {
		b.Run(name, func(b *testing.B) {
			tx := txBegin(b, testenv.Database(b).Connect(b))
			txCheck(b, lock(tx))
			b.ReportAllocs()
			for b.Loop() {
				txCheck(b, lock(tx))
			}
		})
	}
}

func benchPrepared(ctx context.Context, tx pgx.Tx, key pglock.Key) error {
	_, err := lockdb.New(tx).LockTx(ctx, lockdb.LockTxParams{Number: key.Int64()})
	return err
}

func benchBare(ctx context.Context, tx pgx.Tx, key pglock.Key) error {
	_, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", key.Int64())
	return err
}

// BenchmarkLockAllTx compares LockAllTx of 100 keys with 100 calls of LockTx, alternately.
func BenchmarkLockAllTx(b *testing.B) {
	ctx, conn := b.Context(), testenv.Database(b).Connect(b)
	all := func(tx pgx.Tx) error { return pglock.LockAllTx(ctx, tx, txHundredKeys) }
	each := func(tx pgx.Tx) error {
		for _, key := range txHundredKeys {
			//pglock:allow it is what LockAllTx is measured beside
			if err := pglock.LockTx(ctx, tx, key); err != nil {
				return err
			}
		}
		return nil
	}
	var together, oneByOne time.Duration
	for b.Loop() {
		together += benchTime(b, conn, all)
		oneByOne += benchTime(b, conn, each)
	}
	b.ReportMetric(float64(together.Microseconds())/float64(b.N), "µs/LockAllTx")
	b.ReportMetric(float64(oneByOne.Microseconds())/float64(b.N), "µs/100-LockTx")
	b.ReportMetric(float64(oneByOne)/float64(together), "times-faster")
	b.ReportMetric(0, "ns/op") // of both together, which has no meaning
}

// benchTime returns how long the locks take, without begin and rollback.
func benchTime(b *testing.B, conn *pgx.Conn, lock func(pgx.Tx) error) time.Duration {
	tx, err := conn.Begin(b.Context())
	txCheck(b, err)
	start := time.Now()
	txCheck(b, lock(tx))
	took := time.Since(start)
	txCheck(b, tx.Rollback(b.Context()))
	return took
}
