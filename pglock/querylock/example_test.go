package querylock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/querylock"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// These are what sqlc-gen-pglock and pglock generate write of this comment:
//
//	-- name: PayInvoice :exec
//	-- pglock: lock invoice:{id} try
//	UPDATE invoices SET paid = true WHERE id = $1
const payInvoice = "-- name: PayInvoice :exec\nUPDATE invoices SET paid = true WHERE id = $1"

var (
	keyInvoice = querylock.Template{{Text: "invoice:", Param: "id", Type: querylock.Int}}
	queries    = querylock.NewSet([]querylock.Template{keyInvoice}, []querylock.Query{{
		Name: "PayInvoice", Digest: querylock.Digest(payInvoice), Try: true,
		Locks: []querylock.Lock{{Key: keyInvoice, Args: []int{1}}},
	}})
)

// A query on a transaction with locks takes its lock in the same round trip.
func ExampleTx() {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, testenv.ForExamples().ConnString())
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "CREATE TABLE invoices (id bigint, paid boolean); INSERT INTO invoices VALUES (42)"); err != nil {
		log.Fatal(err)
	}

	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		q := queries.Tx(tx) // locks.Tx(tx), with the generated package locks
		tag, err := q.Exec(ctx, payInvoice, 42)
		fmt.Println(tag.RowsAffected(), err)

		_, err = q.Exec(ctx, "UPDATE invoices SET paid = false")
		fmt.Println(errors.Is(err, querylock.ErrUnknownQuery)) // has no lock, so use tx itself
		return nil
	})
	fmt.Println(err)
	// Output:
	// 1 <nil>
	// true
	// <nil>
}

// The key of a template is the one of its name.
func ExampleTemplate_Key() {
	fmt.Println(keyInvoice.Key(42).Equal(pglock.NewKey("invoice:42")))
	// Output: true
}
