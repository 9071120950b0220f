// Command migrations is a program that brings the schema of its database up to date when it starts, with
// golang-migrate. If several processes start at once, one of them migrates and the others wait.
package main

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	migratepgx "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/adapter/golangmigrate"
)

// schemaKey is the lock under which the schema changes.
var schemaKey = pglock.NewKey("shop-migrations")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	config, err := pgxpool.ParseConfig(os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	if err := run(ctx, config, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run migrates, and then does the program's work.
func run(ctx context.Context, config *pgxpool.Config, out io.Writer) (err error) {
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	locker, err := pglock.New(pool)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locker.Close(context.WithoutCancel(ctx))) }()

	version, err := migrateUp(ctx, locker, config)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	var unpaid int
	if err := pool.QueryRow(ctx, "SELECT count(*) FROM invoices WHERE tenant = 'acme' AND NOT paid").Scan(&unpaid); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "schema version %d, %d invoices to pay\n", version, unpaid)
	return err
}

//go:embed sql
var files embed.FS

// migrateUp brings the schema up to date under a lock. Waiters hold no snapshot, so that CREATE INDEX
// CONCURRENTLY can finish while other processes wait.
func migrateUp(ctx context.Context, locker *pglock.Locker, config *pgxpool.Config) (version uint, err error) {
	source, err := iofs.New(files, "sql")
	if err != nil {
		return 0, err
	}
	driver, err := golangmigrate.Open(ctx, locker, schemaKey, func() (database.Driver, error) {
		return open(stdlib.OpenDB(*config.ConnConfig))
	}, golangmigrate.Lock(pglock.MaxWait(5*time.Minute)))
	if err != nil {
		return 0, errors.Join(err, source.Close())
	}
	m, err := migrate.NewWithInstance("iofs", source, "pgx5", driver)
	if err != nil {
		return 0, errors.Join(err, source.Close(), driver.Close())
	}
	defer func() {
		closedSource, closedDriver := m.Close() // which unlocks
		err = errors.Join(err, closedSource, closedDriver)
	}()
	if err := m.Up(); err != nil && !errors.Is(err, migrate.ErrNoChange) {
		return 0, err
	}
	version, _, err = m.Version()
	return version, err
}

func open(db *sql.DB) (database.Driver, error) {
	driver, err := migratepgx.WithInstance(db, &migratepgx.Config{})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return driver, nil
}
