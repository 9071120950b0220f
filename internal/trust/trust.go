// Package trust keeps code of other roles from being executed by the role that uses schema pglock. A role that may
// create objects in a database can make a schema pglock before an administrator does, full of views, triggers and
// functions that run with the rights of the role that uses them. queries/trust.sql says when a schema may be used.
//
// The look and a later use may find two different schemas under the name pglock: in between, the first may be dropped
// and another role may create its own. So the use, in one transaction, comes after a statement that fails if the name
// leads to another schema than the one that was looked at, and that keeps this one from being dropped. It does not
// prevent ALTER SCHEMA RENAME, for which PostgreSQL takes no lock, but only the schema's owner, who is trusted, can do
// that. [Queue] does both:
//
//	look := trust.Queue(batch, named)
//	batch.Queue("SELECT … pglock.once(…)")
//	err := look.Err(db.SendBatch(ctx, batch).Close())
//
// The use must be a separate statement: merely planning a statement can execute functions (IMMUTABLE ones, in views and
// in the expressions of indexes), whatever its WHERE says. Parsing it executes nothing, so pgx may prepare it.
package trust

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Finding is a reason not to use the schema.
type Finding struct {
	driver.UntrustedError
	Mend string // the statement that ends it
}

func (f Finding) String() string {
	if f.Owner == "" {
		return f.Object
	}
	return fmt.Sprintf("%s belongs to role %q", f.Object, f.Owner)
}

// Looked is the result of a look at the schema.
type Looked struct {
	Schema uint32 // its OID; 0 if there is none
	// AsLogin reports whether the current role is the one that has logged in.
	AsLogin  bool
	Findings []Finding // at most 20, the schema's owner first
}

// Look looks at the schema, and trusts roles that are named. The error matches [ErrUnknownRole] if one of them does not
// exist. It does not protect a later use.
func Look(ctx context.Context, db lockdb.DBTX, named []string) (looked Looked, err error) {
	rows, err := db.Query(ctx, lockdb.LookAtSchema, pgx.QueryExecModeExec, named)
	if err != nil {
		return looked, err
	}
	return looked, looked.read(rows)
}

// QueueLook puts a [Look] into a batch.
func QueueLook(batch *pgx.Batch, named []string, looked *Looked) {
	batch.Queue(lockdb.LookAtSchema, named).Query(looked.read)
}

// QueueSame puts a statement into a batch, in front of those that execute something of the schema. It is an error unless
// the name still leads to the schema that was looked at, and keeps this from being dropped until the transaction ends.
// [sqlstate.ExplainSchema] interprets the error.
func (l *Looked) QueueSame(batch *pgx.Batch) { batch.Queue(lockdb.SameSchema, l.Schema) }

// Err returns the error of the first finding.
func (l *Looked) Err() error {
	if len(l.Findings) == 0 {
		return nil
	}
	return &l.Findings[0].UntrustedError
}

func (l *Looked) read(rows pgx.Rows) error {
	*l = Looked{}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[lockdb.LookAtSchemaRow])
	if err != nil {
		return err
	}
	for _, row := range all {
		switch row.Kind {
		case "":
			l.Schema, l.AsLogin = uint32(row.Schema), row.AsLogin
		case "unknown role":
			return fmt.Errorf("%w: role %q", ErrUnknownRole, row.Owner)
		default:
			l.Findings = append(l.Findings, Finding{driver.UntrustedError{Object: row.Object, Owner: row.Owner}, row.Mend})
		}
	}
	return nil
}

// ErrUnknownRole says that a role named as a trusted owner does not exist. It matches [driver.ErrUntrusted].
var ErrUnknownRole = fmt.Errorf("%w: a trusted owner does not exist", driver.ErrUntrusted)
