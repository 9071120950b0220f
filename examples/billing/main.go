// Command billing is a service with an HTTP interface that adds and pays invoices, and closes the month of a tenant.
// Its queries are in queries.sql, each with its lock; sqlc generated package db from them, and its plugin
// sqlc-gen-pglock package locks.
package main

import (
	"context"
	"errors"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/pglock"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx); err != nil {
		log.Fatal(err)
	}
}

// serve answers requests until ctx ends, and then finishes requests in progress.
func serve(ctx context.Context) (err error) {
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := install(ctx, pool); err != nil {
		return err
	}
	locker, err := pglock.New(pool)
	if err != nil {
		return err
	}
	server := &http.Server{
		Addr:              "127.0.0.1:8080",
		Handler:           newService(pool, locker, mail).handler(),
		ReadHeaderTimeout: 5 * time.Second,
	}
	result := make(chan error, 1)
	go func() { result <- server.ListenAndServe() }()
	log.Print("listening on ", server.Addr)
	select {
	case err = <-result:
	case <-ctx.Done():
	}
	// Once the requests have ended their locks are unlocked, and then the Locker's sessions can end.
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	return errors.Join(err, server.Shutdown(closing), locker.Close(closing))
}

// mail represents slow work that is not part of a transaction.
func mail(ctx context.Context, tenant, month string, cents int64) error {
	log.Printf("mail to %s: %d cents for %s", tenant, cents, month)
	select {
	case <-time.After(time.Second):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
