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
	installed bool
	version   int64         // 0 when it is not recorded
	revocable []trust.Right // that Up takes away
}

// inspect looks at the schema of the database. It uses nothing of a schema that belongs to a role that is not trusted,
// and does not even read it.
func inspect(ctx context.Context, tx pgx.Tx, o options) (schema, error) {
	if len(o.trusted) > 0 { // a role that does not exist is an error even if there is no schema yet
		if _, err := trust.Find(ctx, tx, o.owners()); err != nil {
			return schema{}, err
		}
	}
	row, err := lockdb.New(unprepared{tx}).InspectSchema(ctx)
	s := schema{InspectSchemaRow: row}
	switch {
	case err != nil:
		return schema{}, fmt.Errorf("look for schema pglock: %w", err)
	case s.Owner == "":
		return s, nil
	case !s.Ours:
		return schema{}, fmt.Errorf("%w: in database %q it belongs to role %q "+
			"(rename it or use another database)", ErrForeignSchema, s.Database, s.Owner)
	}
	// A savepoint, since the check fails in the server when the schema has been removed since.
	err = pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		return trust.Check(ctx, tx, o.owners(), "schema_migrations", "schema_migrations")
	})
	switch {
	case errors.Is(err, driver.ErrSchemaMissing):
		return s, nil
	case sqlstate.Of(err) == sqlstate.InsufficientPrivilege:
		return schema{}, s.unreadable(err)
	case err != nil:
		return schema{}, fmt.Errorf("database %q: %w", s.Database, err)
	}
	s.installed = true
	if s.version, err = lockdb.New(unprepared{tx}).SchemaVersion(ctx); err != nil {
		return schema{}, fmt.Errorf("read the version of schema pglock: %w", err)
	}
	rights, err := trust.ExcessRights(ctx, tx)
	if err != nil {
		return schema{}, fmt.Errorf("look up the rights on schema pglock: %w", err)
	}
	s.revocable = slices.DeleteFunc(rights, func(r trust.Right) bool { return !r.Revocable })
	return s, nil
}

// mend puts back the record of the version, and takes away rights.
func (s schema) mend(ctx context.Context, tx pgx.Tx) error {
	if s.version == 0 {
		if err := lockdb.New(unprepared{tx}).RecordVersion(ctx); err != nil {
			return fmt.Errorf("record the version of schema pglock: %w", s.explain(err))
		}
	}
	for _, r := range s.revocable {
		sql := fmt.Sprintf("REVOKE %s ON %s FROM %s CASCADE", r.Privilege, r.Object, r.Grantee)
		if _, err := tx.Exec(ctx, sql, pgx.QueryExecModeExec); err != nil {
			return fmt.Errorf("take away rights on schema pglock: %w", s.explain(err))
		}
	}
	return nil
}

// unrecorded is the error of a schema without its version.
func (s schema) unrecorded() error {
	return fmt.Errorf("pglock.schema_migrations in database %q is empty, as after TRUNCATE or a dump without data "+
		"(migrations.Up or \"pglock migrate up\" puts the version back)", s.Database)
}

func (s schema) unreadable(err error) error {
	return fmt.Errorf("role %q may not read the version of schema pglock in database %q: %w "+
		"(have role %q run: GRANT USAGE ON SCHEMA pglock TO %s; GRANT SELECT ON pglock.schema_migrations TO %[5]s)",
		s.Role, s.Database, err, s.Owner, quote(s.Role))
}

// missing is the error of a database without the schema.
func (s schema) missing() error {
	return fmt.Errorf("%w in database %q (migrations.Up or \"pglock migrate up\" installs it)",
		driver.ErrSchemaMissing, s.Database)
}

// explain says what to do about an error of the server's.
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
