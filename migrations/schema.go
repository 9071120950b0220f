package migrations

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/internal/trust"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// ErrForeignSchema says that the database has a schema pglock that these migrations did not make, such as that of an
// extension. Nothing in it was changed.
var ErrForeignSchema = errors.New("schema pglock was not created by pglock")

// schema is what a database has under the name pglock.
type schema struct {
	lockdb.InspectSchemaRow
	trust.Looked
	installed bool
	version   int64 // 0 when it is not recorded, or not read since excess is not empty
	// excess are rights of other roles, which the current one can take away. The rest of the schema may not have been
	// looked at.
	excess []trust.Finding
}

// inspect looks at the schema of the database. It uses nothing of a schema that is not to be trusted, and does not even
// read it.
func inspect(ctx context.Context, tx pgx.Tx, o config) (s schema, err error) {
	if s.Looked, err = trust.Look(ctx, tx, o.trusted); err != nil {
		return s, err // a role that does not exist is an error even if there is no schema yet
	}
	if s.InspectSchemaRow, err = lockdb.New(unprepared{tx}).InspectSchema(ctx); err != nil {
		return s, fmt.Errorf("look for schema pglock: %w", err)
	}
	switch {
	case s.Owner == "":
		return s, nil
	case !s.Ours:
		return s, fmt.Errorf("%w: in database %q it belongs to role %q "+
			"(rename it or use another database)", ErrForeignSchema, s.Database, s.Owner)
	case slices.ContainsFunc(s.Findings, func(f trust.Finding) bool { return f.Kind != trust.Right || !s.MayChange }):
		return s, fmt.Errorf("database %q: %w", s.Database, s.Err())
	case len(s.Findings) > 0:
		s.installed, s.excess = true, s.Findings
		return s, nil
	}
	// A savepoint, since these fail in the server when the schema has been removed since.
	err = pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		err := s.Keep(ctx, tx)
		if err == nil {
			s.version, err = lockdb.New(unprepared{tx}).SchemaVersion(ctx)
		}
		return err
	})
	switch {
	case errors.Is(err, driver.ErrSchemaMissing):
		return s, nil
	case sqlstate.Of(err) == sqlstate.InsufficientPrivilege:
		return s, s.unreadable(err)
	case err != nil:
		return s, fmt.Errorf("read the version of schema pglock in database %q: %w", s.Database, err)
	}
	s.installed = true
	return s, nil
}

// mend takes away rights of other roles, and puts back the record of the version.
func (s schema) mend(ctx context.Context, tx pgx.Tx, o config) (_ schema, err error) {
	for range 100 { // each look finds 20
		for _, right := range s.excess {
			if _, err := tx.Exec(ctx, right.Mend, pgx.QueryExecModeExec); err != nil {
				return s, fmt.Errorf("take away rights on schema pglock: %w", s.explain(err))
			}
		}
		if len(s.excess) > 0 {
			if s, err = inspect(ctx, tx, o); err != nil {
				return s, err
			}
		}
		switch {
		case len(s.excess) > 0:
			continue
		case s.version == 0:
			if err := lockdb.New(unprepared{tx}).RecordVersion(ctx); err != nil {
				return s, fmt.Errorf("record the version of schema pglock: %w", s.explain(err))
			}
		}
		return s, nil
	}
	return s, fmt.Errorf("rights on schema pglock remain: %w", s.Err())
}

// unrecorded is the error of a schema without its version.
func (s schema) unrecorded() error {
	return fmt.Errorf("pglock.schema_migrations in database %q is empty, as after TRUNCATE or a dump without data "+
		"(migrations.Up or \"pglock migrate up\" puts the version back)", s.Database)
}

func (s schema) unreadable(err error) error {
	return fmt.Errorf("role %q may not read the version of schema pglock in database %q: %w "+
		"(have role %q run: GRANT USAGE ON SCHEMA pglock TO %s; GRANT SELECT ON pglock.schema_migrations, pglock.fence TO %[5]s)",
		s.Role, s.Database, err, s.Owner, quote(s.Role))
}

// missing is the error of a database without the schema.
func (s schema) missing() error {
	return fmt.Errorf("%w in database %q (migrations.Up or \"pglock migrate up\" installs it)",
		driver.ErrSchemaMissing, s.Database)
}

// explain says what to do about an error of the server's, if there is one.
func (s schema) explain(err error) error {
	switch state := sqlstate.Of(err); {
	case state == sqlstate.InsufficientPrivilege && !s.installed && !s.MayCreate:
		return fmt.Errorf("role %q may not create schema pglock in database %q: %w (GRANT CREATE ON DATABASE %s TO %s, "+
			"or run the migrations as a role that has that right)", s.Role, s.Database, err, quote(s.Database), quote(s.Role))
	case state == sqlstate.InsufficientPrivilege:
		return fmt.Errorf("role %q may not change schema pglock in database %q: %w (run as role %q, which owns it)",
			s.Role, s.Database, err, s.Owner)
	case state == sqlstate.DependentObjectsStillExist || state == sqlstate.AmbiguousFunction:
		return fmt.Errorf("something that pglock did not make is in the way: %w: %s (drop it or move it first)",
			err, sqlstate.Refusal(err).Detail)
	}
	return err
}

// unprepared sends statements without preparing them by name, which a transaction pooler may not allow, whatever the
// pool is configured to do.
type unprepared struct{ lockdb.DBTX }

func (u unprepared) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return u.DBTX.Query(ctx, sql, append([]any{pgx.QueryExecModeExec}, args...)...)
}

func (u unprepared) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return u.DBTX.QueryRow(ctx, sql, append([]any{pgx.QueryExecModeExec}, args...)...)
}
