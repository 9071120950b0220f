// Package trust keeps code of other roles from being executed by the role that uses schema pglock. A role that may
// create objects in a database can make a schema pglock before an administrator does, full of views, triggers and
// functions that run with the rights of the role that uses them. So an object of the schema is used only if its owner
// is trusted ([Owners]). Trusted roles are the current role; superusers; members that can become the current role
// anyway; the owner of the database, who can set search_path for its sessions, if the current role has no rights
// elsewhere that are worth stealing (queries/trust.sql says which); and the roles that the user names.
//
// A check and a later use may find two different schemas under the name pglock: in between, the first may be dropped
// and another role may create its own. A lock on a table of the schema, taken before the check and kept until the
// transaction ends, prevents that: neither the table nor its schema can be dropped, and nothing can be renamed or moved
// out of it. The lock does not prevent ALTER SCHEMA RENAME, for which PostgreSQL takes no lock; but only the schema's
// owner, who is trusted, can do that.
//
// So a package uses a table or function of the schema like this, in one READ COMMITTED transaction; without a
// transaction of the caller's, a batch is one by itself:
//
//	trust.Queue(batch, trust.Owners{Named: names}, "schema_migrations", "once")
//	batch.Queue("SELECT … pglock.once(…)")
//	err := trust.Explain(db.SendBatch(ctx, batch).Close())
//
// The use must be a separate statement after the check: merely planning a statement can execute functions (IMMUTABLE
// ones, in views and in the expressions of indexes), whatever its WHERE says. Parsing it executes nothing, so pgx may
// prepare it.
//
// A REPEATABLE READ transaction sees the owners as they were when it began. A schema created since then is noticed.
package trust

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Owners says which roles are trusted beside the current one, its members and superusers.
type Owners struct {
	Named []string
	// NotDatabase means that the owner of the database is not trusted, unless it is named. A program that only looks needs
	// nothing that is executed, so it does not need that owner.
	NotDatabase bool
}

// untrusted lists what belongs to roles that are not trusted, as rows of kind, object and owner. [Owners.args] are its
// parameters.
var untrusted = withoutComments(lockdb.Untrusted)

// args are the parameters of untrusted. No objects mean the whole schema.
func (o Owners) args(objects []string) []any {
	return []any{list(objects), list(o.Named), !o.NotDatabase}
}

// QueueList puts [Find] into a batch, for the objects that are named. [Findings] interprets the rows.
func QueueList(batch *pgx.Batch, owners Owners, objects ...string) *pgx.QueuedQuery {
	return batch.Queue(untrusted, owners.args(objects)...)
}

// withoutComments drops the lines that a server need not read each time.
func withoutComments(sql string) string {
	var b strings.Builder
	for line := range strings.Lines(sql) {
		if !strings.HasPrefix(strings.TrimSpace(line), "--") {
			b.WriteString(strings.TrimSpace(line) + "\n")
		}
	}
	return b.String()
}

// refuse is untrusted as a statement that fails if there is a row: the text is not a number, and
// the error quotes it.
var refuse = "SELECT pg_catalog.concat('" + marker +
	"', pg_catalog.json_build_array(u.kind, u.object, u.owner))::pg_catalog.int4 FROM (\n" + untrusted + ") AS u LIMIT 1"

// marker begins a text that the server puts into its error, also in queries/trust.sql.
const marker = "pglock_untrusted"

// Queue puts two statements into a batch: one locks the table of the schema, for which the role needs SELECT on it,
// and one fails if the schema, an object in it, or anything that the used objects reach is owned by a role that is
// not trusted. The objects are names of tables and functions without the schema; if there are none the whole schema
// is checked. [Explain] interprets the error.
func Queue(batch *pgx.Batch, owners Owners, table string, objects ...string) {
	batch.Queue(pin(table))
	QueueLook(batch, owners, objects...)
}

// QueueLook puts the second of these statements into a batch; it waits for no lock. In front of [Queue] it keeps an
// untrusted role from making others wait for a lock on its table.
func QueueLook(batch *pgx.Batch, owners Owners, objects ...string) {
	batch.Queue(refuse, owners.args(objects)...)
}

// Check does what [QueueLook] and [Queue] do, without preparing statements by name, and explains the error. The check
// holds until the transaction ends.
func Check(ctx context.Context, tx pgx.Tx, owners Owners, table string, objects ...string) error {
	look := func() error {
		_, err := tx.Exec(ctx, refuse, unprepared(owners.args(objects))...)
		return Explain(err)
	}
	if err := look(); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, pin(table), pgx.QueryExecModeExec); err != nil {
		return Explain(err)
	}
	return look()
}

// unprepared has a statement executed without preparing it by name.
func unprepared(args []any) []any { return append([]any{pgx.QueryExecModeExec}, args...) }

// pin locks a table. On its own LOCK TABLE would need a transaction block, which a batch without BEGIN is not.
func pin(table string) string {
	return "DO LANGUAGE plpgsql 'BEGIN LOCK TABLE ONLY pglock." + pgx.Identifier{table}.Sanitize() +
		" IN ACCESS SHARE MODE; END'"
}

// Finding is something that must not be used.
type Finding struct {
	Object string // as PostgreSQL describes it, such as "view pglock.names"
	Owner  string
}

// Querier is the part of a connection, pool or transaction that the functions below use.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Find lists what must not be used, at most 20 objects, the schema first. It does not protect a later use. The error
// matches [ErrUnknownRole] if one of the owners does not exist, and [ErrTooMany].
func Find(ctx context.Context, db Querier, owners Owners) ([]Finding, error) {
	rows, err := db.Query(ctx, untrusted, unprepared(owners.args(nil))...)
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Row])
	if err != nil {
		return nil, err
	}
	return Findings(found)
}

// Looked is the result of [Look].
type Looked struct {
	Schema uint32 // its OID; 0 if there is none
	// AsLogin reports whether the current role is the login role. Trust of the login role
	// extends to the roles that it can become. The converse does not hold.
	AsLogin  bool
	Findings []Finding
}

// Look is [Find] for a use in a later transaction, which runs [Same] first.
func Look(ctx context.Context, db Querier, owners Owners) (looked Looked, err error) {
	rows, err := db.Query(ctx, look, unprepared(owners.args(nil))...)
	if err != nil {
		return looked, err
	}
	var row Row
	var untrusted []Row
	_, err = pgx.ForEachRow(rows, []any{&looked.Schema, &looked.AsLogin, &row.Kind, &row.Object, &row.Owner}, func() error {
		switch row.Kind {
		case "":
		case kindReplaced:
			return ErrReplaced
		default:
			untrusted = append(untrusted, row)
		}
		return nil
	})
	if err != nil {
		return looked, err
	}
	looked.Findings, err = Findings(untrusted)
	return looked, err
}

// look returns at least one row.
var look = `SELECT COALESCE((SELECT n.oid FROM pg_catalog.pg_namespace AS n WHERE n.nspname OPERATOR(pg_catalog.=) 'pglock'),
	0::pg_catalog.oid),
	COALESCE((SELECT r.oid OPERATOR(pg_catalog.=) a.usesysid
		FROM pg_catalog.pg_roles AS r, pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) AS a
		WHERE r.rolname OPERATOR(pg_catalog.=) current_user), false),
	COALESCE(u.kind, ''), COALESCE(u.object, ''), COALESCE(u.owner, '')
FROM (SELECT 1) AS one LEFT JOIN (
` + untrusted + `) AS u ON true`

// Same is a statement that fails unless the name pglock refers to the schema whose OID is its parameter, as found by
// [Look]. The use is a later statement of the same message. [Explain] interprets the error, which matches
// [driver.ErrUntrusted] if the name refers to another schema.
const Same = lockdb.SameSchema

// Row is what was found to be untrusted, or why that is not known.
type Row = lockdb.UntrustedRow

// Findings converts the rows of [QueueList].
func Findings(rows []Row) ([]Finding, error) {
	var found []Finding
	for _, row := range rows {
		switch {
		case row.Kind == kindUnknown:
			return nil, unknown(row.Owner)
		case row.Kind != kindTooMany:
			found = append(found, Finding{row.Object, row.Owner})
		case len(found) == 0:
			return nil, ErrTooMany
		}
	}
	return found, nil
}

// ErrUnknownRole says that a role named as a trusted owner does not exist.
var ErrUnknownRole = errors.New("a trusted owner does not exist")

// ErrReplaced says that the name pglock refers to another schema than a moment ago. It matches
// [driver.ErrUntrusted].
var ErrReplaced = fmt.Errorf("%w: schema pglock was replaced while it was being checked or used (try again)", driver.ErrUntrusted)

// ErrTooMany says that the schema has, or leads to, so many objects that not all were looked at. It matches
// [driver.ErrUntrusted].
var ErrTooMany = fmt.Errorf("%w: schema pglock has, or leads to, more than 2000 objects, which are too many to look at "+
	"(nothing of it was used; find out who made them)", driver.ErrUntrusted)

const kindUnknown, kindReplaced, kindMissing, kindTooMany = "unknown role", "replaced", "missing", "too many"

func unknown(owner string) error {
	return fmt.Errorf("%w: role %q", ErrUnknownRole, owner)
}

// Explain returns the meaning of an error of the batch: it matches [driver.ErrUntrusted] if the check failed,
// [ErrUnknownRole] if one of the owners does not exist, and [driver.ErrSchemaMissing] if there is no schema to check.
// Other errors are returned as they are.
func Explain(err error) error {
	server, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return err
	}
	switch _, finding, marked := strings.Cut(server.Message, marker); {
	case marked:
		var row [3]string
		if json.NewDecoder(strings.NewReader(finding)).Decode(&row) != nil {
			return err
		}
		return explained(row[0], row[1], row[2])
	case server.Code == sqlstate.InvalidSchemaName || server.Code == sqlstate.UndefinedTable:
		return fmt.Errorf("%w, or is older than this needs (run: pglock migrate up): %w", driver.ErrSchemaMissing, err)
	}
	return err
}

func explained(kind, object, owner string) error {
	switch kind {
	case kindUnknown:
		return unknown(owner)
	case kindReplaced:
		return ErrReplaced
	case kindTooMany:
		return ErrTooMany
	case kindMissing:
		return fmt.Errorf("%w, or is older than this needs (run: pglock migrate up)", driver.ErrSchemaMissing)
	}
	return &driver.UntrustedError{Object: object, Owner: owner}
}

// list turns nil into an empty list, since nil would become NULL.
func list(names []string) []string {
	if names == nil {
		return []string{}
	}
	return names
}
