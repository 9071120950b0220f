package migrations

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/options"
	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/internal/timing"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// FS holds the schema as golang-migrate names its files: 000001_pglock.up.sql and 000001_pglock.down.sql. Each is plain
// SQL for one transaction, and has the annotations of goose and dbmate.
//
//go:embed *.sql
var FS embed.FS

//go:embed 000001_pglock.up.sql
var upFile string

//go:embed 000001_pglock.down.sql
var downFile string

// latest is also in upFile.
const latest = 1

// Latest returns the version that [Up] leads to.
func Latest() uint { return latest }

// Up installs schema pglock. If it is there already, in the version [Latest] or a newer one, Up does nothing: then
// it needs no right to install, and does not wait, but it needs the primary. If the current role owns the schema, and nothing
// is wrong with it but rights of others that forbid to trust it, as default privileges give them to what a dump without
// rights restores, Up revokes these.
//
// It may be called from any number of processes at once: one works, the others wait until ctx ends and then find
// nothing to do. If ctx ends the wait, the error matches [driver.ErrNotAcquired] and the context's error, and names the
// session in the way. After any other error the schema is as it was before, with one exception: if the connection is
// lost during the commit, everything may have happened. It is always right to call Up again.
//
// Errors match [ErrForeignSchema] if a schema pglock exists that is not ours, and [driver.ErrStandby] on a hot
// standby. They match [driver.ErrUntrusted] if the schema is not to be trusted, for example since it belongs, or after
// SET ROLE would belong, to a role that is not trusted (see [WithTrustedOwner]). A missing right is named in the error.
func Up(ctx context.Context, pool *pgxpool.Pool, opts ...Option) error {
	if err := change(ctx, pool, opts, schema.absent, schema.install); err != nil {
		return fmt.Errorf("migrations: up: %w", err)
	}
	return nil
}

// Down removes schema pglock with everything that Up made: names, locks in rows, the fencing sequence, which starts
// from 1 if the schema is installed again, and the records of schedule, once and ratelimit: done work can be done
// again. While a live process holds locks in rows, Down is an error that names it: its locks would end, and its work
// would continue. Without a schema Down does nothing.
//
// It never removes anything else: an object that others put into the schema, or made to depend on something in it, is
// an error that names it, and nothing is changed then. A schema that is newer than [Latest] is an error, too. Otherwise
// Down is like [Up].
func Down(ctx context.Context, pool *pgxpool.Pool, opts ...Option) error {
	if err := change(ctx, pool, opts, schema.present, schema.remove); err != nil {
		return fmt.Errorf("migrations: down: %w", err)
	}
	return nil
}

// Version returns the version of the schema, which is larger than [Latest] when a newer pglock installed it. It needs
// no right on the schema. An error matches [driver.ErrSchemaMissing] when there is no schema, [ErrForeignSchema] when
// it is not ours, and [driver.ErrUntrusted] when it is not to be trusted.
func Version(ctx context.Context, pool *pgxpool.Pool, opts ...Option) (version uint, err error) {
	err = transact(ctx, pool, pgx.ReadOnly, opts, func(s schema, _ pgx.Tx) error {
		if s.absent() {
			return fmt.Errorf("%w in database %q (migrations.Up or \"pglock migrate up\" installs it)",
				driver.ErrSchemaMissing, s.Database)
		}
		version = uint(s.Version)
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("migrations: version: %w", err)
	}
	return version, nil
}

// lockNumber is the number of the advisory lock that [Up] and [Down] hold while they change the schema, which is named
// pglock:migrations.
const lockNumber = -8541530951781162844

// pause is how long a call waits on average before it tries again to get the lock.
const pause = 250 * time.Millisecond

const mostRevokes = 100

// change does something if it is needed, in a transaction that has the lock.
func change(
	ctx context.Context, pool *pgxpool.Pool, opts []Option, needed func(schema) bool, do func(schema, context.Context, pgx.Tx) error,
) error {
	var refused error
	for refused == nil || timing.Sleep(ctx, timing.Jittered(pause)) {
		err := transact(ctx, pool, pgx.ReadWrite, opts, func(s schema, tx pgx.Tx) error {
			if !needed(s) {
				return nil
			}
			if err := lock(ctx, tx); err != nil {
				return err
			}
			// Another process may have been faster. READ COMMITTED shows what it has committed.
			s, err := inspect(ctx, tx, s.trusted, mostRevokes)
			if err != nil || !needed(s) {
				return err
			}
			return do(s, ctx, tx)
		})
		switch {
		case errors.Is(err, driver.ErrNotAcquired):
			refused = err
		case err == nil || refused == nil || ctx.Err() == nil:
			return err
		} // otherwise ctx has ended during a later try
	}
	return fmt.Errorf("%w: %w", refused, ctx.Err())
}

// lock tries to take the lock.
func lock(ctx context.Context, tx pgx.Tx) error {
	lock, err := one[lockdb.TryLockMigrationsRow](ctx, tx, lockdb.TryLockMigrations, lockNumber)
	switch {
	case err != nil:
		return fmt.Errorf("lock the migrations: %w", err)
	case !lock.Locked:
		return fmt.Errorf("another session migrates%s: %w", shorttext.Message(lock.Holders), driver.ErrNotAcquired)
	}
	return nil
}

// transact calls do with what there is of the schema, in a transaction that does not use operators and functions which the
// database's owner may have put on the search_path, nor compiles statements or starts workers for them, for seconds, if
// the owner has set the costs of that to 0.
func transact(
	ctx context.Context, pool *pgxpool.Pool, access pgx.TxAccessMode, opts []Option, do func(schema, pgx.Tx) error,
) error {
	var c config
	if err := options.Apply(&c, opts); err != nil {
		return err
	}
	if pool == nil {
		return errors.New("the pool is nil")
	}
	begun := false
	err := pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: access}, func(tx pgx.Tx) error {
		begun = true
		if _, err := tx.Exec(ctx, lockdb.SetSearchPath+";"+lockdb.SetNoJIT+";"+lockdb.SetNoWorkers); err != nil {
			return fmt.Errorf("set search_path: %w", err)
		}
		revokes := 0
		if access == pgx.ReadWrite {
			revokes = mostRevokes
		}
		s, err := inspect(ctx, tx, c.trusted, revokes)
		if err != nil {
			return err
		}
		return do(s, tx)
	})
	if !begun && sqlstate.Of(err) == sqlstate.FeatureNotSupported { // what a standby says to READ WRITE
		return fmt.Errorf("%w (connect to the primary): %w", driver.ErrStandby, err)
	}
	return err
}
