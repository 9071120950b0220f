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

// These are what sqlc-gen-pglock writes of these comments:
//
//	-- pglock: key invoice:{id bigint}
//
//	-- name: PayInvoice :exec
//	-- pglock: lock invoice:{id} try
//	UPDATE invoices SET paid = true WHERE id = $1
const payInvoice = "-- name: PayInvoice :exec\nUPDATE invoices SET paid = true WHERE id = $1"

var queries = querylock.NewSet([]string{"invoice:{id bigint}"}, []querylock.Query{
	{Name: "PayInvoice", Digest: querylock.Digest(payInvoice), Locks: []string{"invoice:{id=$1} try"}},
})

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

// The key of a declaration is the one of its name.
func ExampleSet_Key() {
	fmt.Println(queries.Key("invoice:{id bigint}", 42).Equal(pglock.NewKey("invoice:42")))
	// Output: true
}
