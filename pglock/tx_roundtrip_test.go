package pglock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
)

// txCalls are the calls that must be one round trip. Key 1 is held by another session.
var txCalls = []struct {
	name    string
	call    func(ctx context.Context, tx pgx.Tx) error
	refused bool
}{
	{name: "LockTx", call: func(ctx context.Context, tx pgx.Tx) error {
		return pglock.LockTx(ctx, tx, pglock.NewKey("free"))
	}},
	{name: "LockTx of a pair", call: func(ctx context.Context, tx pgx.Tx) error {
		return pglock.LockTx(ctx, tx, pglock.PairKey(-7, 42))
	}},
	{name: "LockTx, Shared", call: func(ctx context.Context, tx pgx.Tx) error {
		return pglock.LockTx(ctx, tx, pglock.NewKey("free"), pglock.Shared())
	}},
	{name: "LockTx, MaxWait", call: func(ctx context.Context, tx pgx.Tx) error {
		return pglock.LockTx(ctx, tx, pglock.NewKey("free"), pglock.MaxWait(txLong))
	}},
	{name: "LockTx of a pair, MaxWait, Shared", call: func(ctx context.Context, tx pgx.Tx) error {
		return pglock.LockTx(ctx, tx, pglock.PairKey(-7, 42), pglock.MaxWait(txLong), pglock.Shared())
	}},
	{name: "LockTx that does not wait", refused: true, call: func(ctx context.Context, tx pgx.Tx) error {
		return pglock.LockTx(ctx, tx, pglock.Int64Key(1), pglock.MaxWait(0))
	}},
	{name: "TryLockTx", call: func(ctx context.Context, tx pgx.Tx) error {
		return pglock.TryLockTx(ctx, tx, pglock.NewKey("free"))
	}},
	{name: "TryLockTx of a pair, Shared", call: func(ctx context.Context, tx pgx.Tx) error {
		return pglock.TryLockTx(ctx, tx, pglock.PairKey(-7, 42), pglock.Shared())
	}},
	{name: "TryLockTx of a held lock", refused: true, call: func(ctx context.Context, tx pgx.Tx) error {
		return pglock.TryLockTx(ctx, tx, pglock.Int64Key(1))
	}},
	{name: "LockAllTx", call: func(ctx context.Context, tx pgx.Tx) error {
		return pglock.LockAllTx(ctx, tx, txHundredKeys)
	}},
	{name: "LockAllTx, Shared", call: func(ctx context.Context, tx pgx.Tx) error {
		return pglock.LockAllTx(ctx, tx, txHundredKeys, pglock.Shared())
	}},
}

const txPooled = "through a transaction pooler"

// txServers are the ways to one database.
func txServers(t *testing.T, db *testenv.DB) map[string]string {
	txExec(t, db.Connect(t), "REVOKE ALL ON SCHEMA public FROM PUBLIC")
	return map[string]string{
		"as a superuser":           db.ConnString(),
		"as a role without rights": db.Role(t, "pglock_poor"),
		txPooled:                   testenv.PgBouncer(t, db, testenv.TransactionPooling),
	}
}

func TestTxLocksOfATransactionAreOneRoundTrip(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	txHold(t, db, pglock.Int64Key(1))
	for server, connString := range txServers(t, db) {
		for _, mode := range txModes {
			var trips *txRoundTrips
			conn := txConnect(t, connString, func(config *pgx.ConnConfig) {
				config.DefaultQueryExecMode = mode
				trips = txCountRoundTrips(config)
			})
			for _, c := range txCalls {
				t.Run(fmt.Sprintf("%s/%s/%s", server, mode, c.name), func(t *testing.T) {
					tx := txBegin(t, conn)
					var err error
					if n := trips.during(func() { err = c.call(t.Context(), tx) }); n != 1 {
						t.Errorf("it took %d round trips", n)
					}
					if refused := errors.Is(err, pglock.ErrNotAcquired); refused != c.refused || (err != nil && !refused) {
						t.Errorf("the error is %v", err)
					}
					txWantUsable(t, tx)
				})
			}
		}
	}
}

func TestTxBeginFuncIsBeginLockAndCommit(t *testing.T) {
	t.Parallel()
	var trips *txRoundTrips
	conn := txConnect(t, testenv.Database(t).ConnString(), func(config *pgx.ConnConfig) { trips = txCountRoundTrips(config) })
	for _, opts := range [][]pglock.TxOption{nil, {pglock.MaxWait(time.Second)}, {pglock.Shared()}} {
		n := trips.during(func() {
			nothing := func(context.Context, pgx.Tx) error { return nil }
			txCheck(t, pglock.BeginFunc(t.Context(), conn, pglock.NewKey("free"), nothing, opts...))
		})
		if n != 3 {
			t.Errorf("it took %d round trips", n)
		}
	}
}
