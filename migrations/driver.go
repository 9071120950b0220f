package migrations

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5"
)

// run has golang-migrate apply one migration after the other in tx, from one version to op's target. It calls Steps
// once per migration: when a migration fails, golang-migrate leaves a goroutine behind for each one that it has read
// ahead.
func run(ctx context.Context, tx pgx.Tx, from int, op operation) error {
	files, err := iofs.New(FS, ".")
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	db := &txDriver{ctx: ctx, tx: tx, version: from}
	migrator, err := migrate.NewWithInstance("embedded", files, "tx", db)
	if err != nil {
		return fmt.Errorf("prepare the migrations: %w", err)
	}
	for db.version != op.target {
		if err := migrator.Steps(op.step); err != nil {
			return fmt.Errorf("migrate from version %d: %w", max(db.version, 0), err)
		}
	}
	return nil
}

// txDriver lets golang-migrate work in one transaction that already holds the lock, and honours a context.
// golang-migrate's own drivers commit between a migration and its record, so a failure can leave a database "dirty".
// They also ignore the context, and wait for their lock in a statement, for which CREATE INDEX CONCURRENTLY waits in
// turn.
//
// The migrations record their versions themselves, so txDriver only counts them.
type txDriver struct {
	ctx     context.Context // of the one call that uses the driver; golang-migrate passes none
	tx      pgx.Tx
	version int
}

var _ database.Driver = (*txDriver)(nil)

func (d *txDriver) Lock() error   { return nil }
func (d *txDriver) Unlock() error { return nil }
func (d *txDriver) Close() error  { return nil }

func (d *txDriver) Run(migration io.Reader) error {
	sql, err := io.ReadAll(migration)
	if err != nil {
		return err
	}
	_, err = d.tx.Exec(d.ctx, string(sql), pgx.QueryExecModeSimpleProtocol) // the only protocol for many statements
	return err
}

// SetVersion is called before and after Run. Other sessions never see the dirty version in between.
func (d *txDriver) SetVersion(version int, dirty bool) error {
	if !dirty {
		d.version = version
	}
	return nil
}

func (d *txDriver) Version() (version int, dirty bool, err error) { return d.version, false, nil }

func (d *txDriver) Open(string) (database.Driver, error) {
	return nil, fmt.Errorf("open by URL: %w", errors.ErrUnsupported)
}

func (d *txDriver) Drop() error { return fmt.Errorf("drop: %w", errors.ErrUnsupported) }
