// Command invoices pays invoices whose locks are written in the comments of queries.sql. sqlc generated package db
// from it, and its plugin sqlc-gen-pglock package locks.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/examples/invoices/db"
	"github.com/pglock-toolkit/pglock/examples/invoices/locks"
	"github.com/pglock-toolkit/pglock/pglock"
)

func main() {
	pool, err := pgxpool.New(context.Background(), os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if err := run(context.Background(), pool, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, pool *pgxpool.Pool, out io.Writer) error {
	// A transaction with locks: each query takes its lock in its own round trip.
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		q := db.New(locks.Tx(tx))
		for id := range int64(3) {
			if err := q.AddInvoice(ctx, db.AddInvoiceParams{ID: id + 1, Tenant: "acme", Cents: 1000}); err != nil {
				return err
			}
		}
		paid, err := q.PayInvoice(ctx, 1)
		fmt.Fprintln(out, "paid:", paid)
		return err
	})
	if err != nil {
		return err
	}

	// The same key works with a Locker, which holds it across transactions, or with LockTx.
	return pglock.BeginFunc(ctx, pool, locks.Invoice(2), func(pgx.Tx) error {
		return payTheRest(ctx, pool, out)
	})
}

// payTheRest runs while another session holds invoice 2.
func payTheRest(ctx context.Context, pool *pgxpool.Pool, out io.Writer) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		q := db.New(locks.Tx(tx))
		_, err := q.PayInvoices(ctx, []int64{3, 2})
		if !errors.Is(err, pglock.ErrNotAcquired) {
			return err
		}
		fmt.Fprintln(out, "refused:", err)
		paid, err := q.PayInvoices(ctx, []int64{3}) // the savepoint kept the transaction usable
		if err != nil {
			return err
		}
		fmt.Fprintln(out, "paid instead:", paid)
		cents, err := q.Bill(ctx, "acme")
		fmt.Fprintln(out, "to pay:", cents, "cents; the label of", locks.Invoice(2), "is", locks.Label("invoice:2"))
		return err
	})
}
