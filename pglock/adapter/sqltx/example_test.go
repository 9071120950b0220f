package sqltx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/adapter/sqltx"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func exampleDB() *sql.DB {
	db, err := sql.Open("pgx", testenv.ForExamples().ConnString())
	if err != nil {
		log.Fatal(err)
	}
	return db
}

func ExampleLockTx() {
	ctx := context.Background()
	db := exampleDB()
	defer db.Close()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback()
	if err := sqltx.LockTx(ctx, tx, pglock.NewKey("invoice:42"), pglock.MaxWait(2*time.Second)); err != nil {
		log.Fatal(err) // errors.Is(err, pglock.ErrNotAcquired): another transaction has it
	}
	fmt.Println(tx.Commit()) // frees the lock
	// Output: <nil>
}

func ExampleTryLockTx() {
	ctx := context.Background()
	db := exampleDB()
	defer db.Close()
	busy, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer busy.Rollback()
	if err := sqltx.LockTx(ctx, busy, pglock.NewKey("invoice:42")); err != nil {
		log.Fatal(err)
	}

	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback()
	err = sqltx.TryLockTx(ctx, tx, pglock.NewKey("invoice:42"))
	fmt.Println(errors.Is(err, pglock.ErrNotAcquired))
	fmt.Println(errors.Is(sqltx.TryLockTx(ctx, db, pglock.NewKey("invoice:43")), sqltx.ErrNoTransaction))
	// Output:
	// true
	// true
}

// The transaction cannot commit stale writes after the Locker's lock is lost.
func ExampleGuardTx() {
	ctx := context.Background()
	db := exampleDB()
	defer db.Close()
	locker, err := pglock.Open(ctx, testenv.ForExamples().ConnString())
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close(ctx)
	err = locker.Do(ctx, pglock.NewKey("ledger"), func(ctx context.Context, lock *pglock.Lock) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := sqltx.GuardTx(ctx, lock, tx); err != nil {
			return err
		}
		return tx.Commit()
	})
	fmt.Println(err)
	// Output: <nil>
}
