package migrations

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/options"
	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/internal/trust"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// FS holds the schema as golang-migrate names its files: 000001_pglock.up.sql and 000001_pglock.down.sql. Each is plain
// SQL for one transaction.
//
//go:embed *.sql
var FS embed.FS

const (
	upFile   = "000001_pglock.up.sql"
	downFile = "000001_pglock.down.sql"
)

// latest is also in upFile.
const latest = 1

// Latest returns the version that [Up] leads to.
func Latest() uint { return latest }

// Up installs schema pglock. If it is there already, in the version [Latest] or a newer one, Up does nothing: then
// it needs no right to install, and does not wait. But if the role owns the schema, Up revokes the rights on it that
// ALTER DEFAULT PRIVILEGES or a GRANT ALL may have given (see the section about rights). It also restores the record
// of the version, which a dump without data lacks.
//
// It may be called from any number of processes at once: one works, the others wait until ctx ends and then find
// nothing to do. If ctx ends the wait, the error matches [driver.ErrNotAcquired] and the context's error, and names the
// session in the way. After any other error the schema is as it was before, with one exception: if the connection is
// lost during the commit, everything may have happened. It is always right to call Up again.
//
// Errors match [ErrForeignSchema] if a schema pglock exists that is not ours, and [driver.ErrStandby] on a hot
// standby. They match [driver.ErrUntrusted] if the schema belongs, or after SET ROLE would belong, to a role that is
// not trusted (see [WithTrustedOwner]). A missing right is named in the error.
func Up(ctx context.Context, pool *pgxpool.Pool, opts ...Option) error {
	if err := exclusively(ctx, pool, up, opts); err != nil {
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
	if err := exclusively(ctx, pool, down, opts); err != nil {
		return fmt.Errorf("migrations: down: %w", err)
	}
	return nil
}

// Version returns the version of the schema, which is larger than [Latest] when a newer pglock installed it. An error
// matches [driver.ErrSchemaMissing] when there is no schema, [ErrForeignSchema] when it is not ours, and
// [driver.ErrUntrusted] when it belongs to a role that is not trusted.
func Version(ctx context.Context, pool *pgxpool.Pool, opts ...Option) (uint, error) {
	var o config
	if err := options.Apply(&o, opts); err != nil {
		return 0, fmt.Errorf("migrations: version: %w", err)
	}
	s, err := look(ctx, pool, o)
	switch {
	case err != nil:
	case !s.installed:
		err = s.missing()
	case len(s.excess) > 0:
		err = fmt.Errorf("database %q: %w", s.Database, s.Err())
	case s.version == 0:
		err = s.unrecorded()
	}
	if err != nil {
		return 0, fmt.Errorf("migrations: version: %w", err)
	}
	return uint(s.version), nil
}

// operation is the difference between Up and Down.
type operation struct {
	pending func(schema) (bool, error)
	do      func(context.Context, pgx.Tx, schema, config) error // in the transaction that has the lock
}

var (
	up = operation{
		pending: func(s schema) (bool, error) {
			return !s.installed || s.version == 0 && !s.Standby, nil // 0 also if there are rights to take away
		},
		do: func(ctx context.Context, tx pgx.Tx, s schema, o config) error {
			if s.installed {
				_, err := s.mend(ctx, tx, o)
				return err
			}
			if err := s.execute(ctx, tx, upFile); err != nil {
				return fmt.Errorf("install the schema: %w", err)
			}
			_, err := inspect(ctx, tx, o) // after SET ROLE it may belong to a role that is not trusted
			return err
		},
	}
	down = operation{
		pending: func(s schema) (bool, error) {
			if s.version > latest {
				return false, fmt.Errorf("schema pglock in database %q has version %d, and this pglock supports %d: "+
					"use the pglock that installed it, or a newer one", s.Database, s.version, latest)
			}
			return s.installed, nil
		},
		do: func(ctx context.Context, tx pgx.Tx, s schema, o config) error {
			s, err := s.mend(ctx, tx, o)
			if err == nil {
				err = s.execute(ctx, tx, downFile)
			}
			if err != nil {
				return fmt.Errorf("remove the schema: %w", err)
			}
			return nil
		},
	}
)

func (s schema) execute(ctx context.Context, tx pgx.Tx, file string) error {
	sql, err := FS.ReadFile(file)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, string(sql), pgx.QueryExecModeSimpleProtocol) // the only protocol for many statements
	return s.explain(err)
}

// lockNumber is the number of the advisory lock that [Up] and [Down] hold while they change the schema, which is named
// pglock:migrations.
const lockNumber = -8541530951781162844

// The pauses between two tries for the lock, before the random part that keeps processes apart.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
)

// exclusively carries out op under the lock if there is anything to do.
func exclusively(ctx context.Context, pool *pgxpool.Pool, op operation, opts []Option) error {
	var o config
	if err := options.Apply(&o, opts); err != nil {
		return err
	}
	s, err := look(ctx, pool, o)
	if err != nil {
		return err
	}
	if pending, err := op.pending(s); err != nil || !pending {
		return err
	}
	if s.Standby {
		return fmt.Errorf("database %q: %w (connect to the primary)", s.Database, driver.ErrStandby)
	}
	var busy error
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		locked, err := attempt(ctx, pool, op, o)
		switch {
		case errors.Is(err, driver.ErrNotAcquired):
			busy = err
		case locked || busy == nil || ctx.Err() == nil:
			return err
		}
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", busy, ctx.Err())
		}
	}
}

// attempt tries to take the lock, and carries out op in the transaction that has it. Another process may have been
// faster, so it first checks the schema again; READ COMMITTED lets it see what that process committed.
func attempt(ctx context.Context, pool *pgxpool.Pool, op operation, o config) (locked bool, err error) {
	err = transact(ctx, pool, pgx.ReadWrite, func(tx pgx.Tx) error {
		lock, err := lockdb.New(unprepared{tx}).TryLockMigrations(ctx, lockNumber)
		switch {
		case err != nil:
			return fmt.Errorf("lock the migrations: %w", err)
		case !lock.Locked:
			return fmt.Errorf("another session migrates%s: %w", shorttext.Message(lock.Holders), driver.ErrNotAcquired)
		}
		locked = true
		s, err := inspect(ctx, tx, o)
		if err != nil {
			return err
		}
		if pending, err := op.pending(s); err != nil || !pending {
			return err
		}
		return op.do(ctx, tx, s, o)
	})
	return locked, err
}

// look inspects the schema without the lock. Its transaction keeps the schema in place while its version is read. If
// another process replaces the schema between two statements, the newer one is looked at.
func look(ctx context.Context, pool *pgxpool.Pool, o config) (s schema, err error) {
	for range 10 { // an error of the last look is true
		err = transact(ctx, pool, pgx.ReadOnly, func(tx pgx.Tx) error {
			s, err = inspect(ctx, tx, o)
			return err
		})
		if !errors.Is(err, trust.ErrReplaced) {
			break
		}
	}
	return s, err
}

// transact calls do in a transaction that does not use operators and functions which the database's owner may have put
// on the search_path, nor compiles statements or starts workers for them, for seconds, if the owner has set the costs
// of that to 0.
func transact(ctx context.Context, pool *pgxpool.Pool, access pgx.TxAccessMode, do func(pgx.Tx) error) error {
	if pool == nil {
		return errors.New("the pool is nil")
	}
	return pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: access}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockdb.SetSearchPath+";"+lockdb.SetNoJIT+";"+lockdb.SetNoWorkers); err != nil {
			return fmt.Errorf("set search_path: %w", err)
		}
		return do(tx)
	})
}
