package rowadapters

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	golangmigrate "github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	migratepgx "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	pglockmigrate "github.com/pglock-toolkit/pglock/pglock/adapter/golangmigrate"
	pglockgoose "github.com/pglock-toolkit/pglock/pglock/adapter/goose"
)

// open opens the database directly, since the tools' own statements may need a session.
func (p *place) open(t *testing.T) *sql.DB {
	t.Helper()
	db := stdlib.OpenDB(*p.Config(t).ConnConfig)
	t.Cleanup(func() { must.Succeed(t, db.Close()) })
	return db
}

func provider(t *testing.T, db *sql.DB, opts ...goose.ProviderOption) *goose.Provider {
	t.Helper()
	p, err := goose.NewProvider(goose.DialectPostgres, db, files(".sql", ""), opts...)
	must.Succeed(t, err)
	return p
}

func TestRowsGoose(t *testing.T) {
	for name, up := range map[string]func(*testing.T, *place) error{
		"Run": func(t *testing.T, p *place) error {
			return pglockgoose.Run(t.Context(), p.locker(t), key, func(ctx context.Context) error {
				_, err := provider(t, p.open(t)).Up(ctx)
				return err
			})
		},
		"NewLocker": func(t *testing.T, p *place) error {
			locker, err := pglockgoose.NewLocker(p.locker(t), key)
			must.Succeed(t, err)
			_, err = provider(t, p.open(t), goose.WithLocker(locker)).Up(t.Context())
			return err
		},
		"NewSessionLocker": func(t *testing.T, p *place) error {
			locker, err := pglockgoose.NewSessionLocker(p.locker(t), key)
			must.Succeed(t, err)
			_, err = provider(t, p.open(t), goose.WithSessionLocker(locker)).Up(t.Context())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) { migrateAtOnce(t, up) })
	}
}

func TestRowsGooseRunEndsWithTheLock(t *testing.T) {
	p := newPlace(t)
	l := p.locker(t)
	err := pglockgoose.Run(t.Context(), l, key, func(ctx context.Context) error {
		p.loseAll(t)
		_, _ = l.TryLock(t.Context(), pglock.NewKey("another")) // a call learns of the end before the next renewal
		<-ctx.Done()
		return context.Cause(ctx)
	})
	if !errors.Is(err, pglock.ErrLost) {
		t.Errorf("the error is %v", err)
	}
}

func TestRowsGolangMigrate(t *testing.T) {
	migrateAtOnce(t, func(t *testing.T, p *place) (err error) {
		driver, err := pglockmigrate.Open(t.Context(), p.locker(t), key, func() (database.Driver, error) {
			return migratepgx.WithInstance(stdlib.OpenDB(*p.Config(t).ConnConfig), &migratepgx.Config{})
		})
		if err != nil {
			return err
		}
		source, err := iofs.New(files(".up.sql", ".down.sql"), ".")
		must.Succeed(t, err)
		m, err := golangmigrate.NewWithInstance("iofs", source, "pgx5", driver)
		must.Succeed(t, err)
		defer func() {
			sourceErr, driverErr := m.Close()
			err = errors.Join(err, sourceErr, driverErr)
		}()
		if err := m.Up(); err != nil && !errors.Is(err, golangmigrate.ErrNoChange) {
			return err
		}
		return nil
	})
}

func TestRowsGolangMigrateRefusesToWriteAfterALoss(t *testing.T) {
	p := newPlace(t)
	l := p.locker(t)
	driver, err := pglockmigrate.Open(t.Context(), l, key, func() (database.Driver, error) {
		return migratepgx.WithInstance(stdlib.OpenDB(*p.Config(t).ConnConfig), &migratepgx.Config{})
	})
	must.Succeed(t, err)
	p.loseAll(t)
	_, _ = l.TryLock(t.Context(), pglock.NewKey("another"))
	if err := driver.SetVersion(1, false); !errors.Is(err, pglock.ErrLost) {
		t.Errorf("the error is %v", err)
	}
	if err := driver.Close(); !errors.Is(err, pglock.ErrLost) {
		t.Errorf("the error of Close is %v", err)
	}
}
