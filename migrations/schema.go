package migrations

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/internal/trust"
)

// ErrForeignSchema says that the database has a schema pglock that these migrations did not make, such as that of an
// extension. Nothing in it was changed.
var ErrForeignSchema = errors.New("schema pglock was not created by pglock")

// schema is what a database has under the name pglock.
type schema struct {
	lockdb.InspectSchemaRow
	trust.Looked
	trusted []string // roles that were named
}

func (s schema) present() bool { return s.Owner != "" }
func (s schema) absent() bool  { return !s.present() }

// inspect looks at the schema of the database. It executes nothing of it. So many times at most it takes away rights of others,
// since one look does not find all.
func inspect(ctx context.Context, tx pgx.Tx, trusted []string, revokes int) (schema, error) {
	s := schema{trusted: trusted}
	var err error
	if s.Looked, err = trust.Look(ctx, tx, trusted); err != nil {
		return s, err // a role that does not exist is an error even if there is no schema yet
	}
	if s.InspectSchemaRow, err = one[lockdb.InspectSchemaRow](ctx, tx, lockdb.InspectSchema); err != nil {
		return s, fmt.Errorf("look for schema pglock: %w", err)
	}
	switch {
	case s.present() && s.Version == 0:
		return s, fmt.Errorf("%w: in database %q it belongs to role %q "+
			"(rename it or use another database)", ErrForeignSchema, s.Database, s.Owner)
	case revokes > 0 && s.overgranted():
		return s.revoke(ctx, tx, revokes-1)
	case s.Err() != nil:
		return s, fmt.Errorf("database %q: %w", s.Database, s.Err())
	}
	return s, nil
}

// overgranted reports whether nothing is wrong with the schema but rights of others, and the current role has given
// them. So it is where default privileges have added to what a dump without rights restores.
func (s schema) overgranted() bool {
	return len(s.Findings) > 0 && s.Owner == s.Role && !slices.ContainsFunc(s.Findings, func(f trust.Finding) bool {
		return !strings.HasPrefix(f.Mend, "REVOKE ")
	})
}

// revoke takes these rights away, and inspects again. It needs the lock, as two at a time would fail.
func (s schema) revoke(ctx context.Context, tx pgx.Tx, revokes int) (schema, error) {
	if err := lock(ctx, tx); err != nil {
		return s, err
	}
	for _, right := range s.Findings {
		if _, err := tx.Exec(ctx, right.Mend, pgx.QueryExecModeExec); err != nil {
			return s, fmt.Errorf("take away rights on schema pglock: %w", err)
		}
	}
	return inspect(ctx, tx, s.trusted, revokes)
}

func (s schema) install(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, upFile, pgx.QueryExecModeSimpleProtocol) // the only protocol for many statements
	switch {
	case sqlstate.Of(err) == sqlstate.InsufficientPrivilege && !s.MayCreate:
		return fmt.Errorf("role %q may not create schema pglock in database %q: %w (GRANT CREATE ON DATABASE %s TO %s, "+
			"or run the migrations as a role that has that right)", s.Role, s.Database, err, quote(s.Database), quote(s.Role))
	case err != nil:
		return fmt.Errorf("install the schema: %w", err)
	}
	_, err = inspect(ctx, tx, s.trusted, 0) // after SET ROLE it may belong to a role that is not trusted
	return err
}

func (s schema) remove(ctx context.Context, tx pgx.Tx) error {
	if s.Version > latest {
		return fmt.Errorf("schema pglock in database %q has version %d, and this pglock supports %d: "+
			"use the pglock that installed it, or a newer one", s.Database, s.Version, latest)
	}
	_, err := tx.Exec(ctx, lockdb.SameSchema, pgx.QueryExecModeExec, s.Schema)
	if err == nil {
		_, err = tx.Exec(ctx, downFile, pgx.QueryExecModeSimpleProtocol)
	}
	switch state := sqlstate.Of(err); {
	case state == sqlstate.InsufficientPrivilege:
		return fmt.Errorf("role %q may not remove schema pglock in database %q: %w (run as role %q, which owns it)",
			s.Role, s.Database, err, s.Owner)
	case state == sqlstate.DependentObjectsStillExist || state == sqlstate.AmbiguousFunction:
		return fmt.Errorf("something that pglock did not make is in the way: %w: %s (drop it or move it first)",
			err, sqlstate.Refusal(err).Detail)
	case err != nil:
		return fmt.Errorf("remove the schema: %w", err)
	}
	return nil
}

// one returns the row of a statement. It is not prepared by name, which a transaction pooler may not allow, whatever
// the pool is configured to do.
func one[T any](ctx context.Context, tx pgx.Tx, sql string, args ...any) (row T, err error) {
	rows, err := tx.Query(ctx, sql, append([]any{pgx.QueryExecModeExec}, args...)...)
	if err != nil {
		return row, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[T])
}
