package trust

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
)

// found remembers which schemas this process may use: a seen, by the database that a connection leads to, its role, and the
// roles that are named.
//
// A look costs more than a use, so it is done at the first use and then once a minute. Each use asks whether the name
// pglock still leads to the schema that was looked at, and keeps it from being dropped. So in that minute another role's
// code can get in only if a trusted role permits it, with the right to create in the schema or to attach triggers.
//
// A connection is identified by the role that has logged in. A result after SET ROLE holds for that role only, and is
// not remembered: each use then looks again.
var found sync.Map

type seen struct {
	schema uint32 // its OID
	at     time.Time
}

const trustFor = time.Minute

// Queue puts a statement into a batch, in front of those that execute something of the schema, and trusts roles that are
// named. It has one result, which is an error unless the schema may be used; after an error nothing behind it is executed.
// The batch may be sent inside a transaction.
func Queue(b *pgx.Batch, named []string) *Check {
	check := &Check{named: named}
	b.Queue(lockdb.SameSchema, check)
	return check
}

// Check is one look at the schema.
type Check struct {
	named []string
	err   error
}

// RewriteQuery implements [pgx.QueryRewriter], which is called while the batch is being made ready and the connection is
// free.
func (k *Check) RewriteQuery(ctx context.Context, conn *pgx.Conn, sql string, _ []any) (string, []any, error) {
	where := who(conn) + "\x00" + strings.Join(k.named, "\x00")
	known, ok := found.Load(where)
	if ok && time.Since(known.(seen).at) < trustFor {
		return sql, []any{known.(seen).schema}, nil
	}
	looked, err := lookAside(ctx, conn, k.named)
	if err != nil {
		err = fmt.Errorf("look up the owner of schema pglock: %w", err)
	}
	if k.err = cmp.Or(err, looked.Err()); k.err == nil && looked.Schema != 0 && looked.AsLogin {
		found.Store(where, seen{looked.Schema, time.Now()})
	}
	return sql, []any{looked.Schema}, k.err
}

// Err returns the error of the check, if err is what the batch returned before the results of other statements.
func (k *Check) Err(err error) error {
	if k.err != nil {
		return k.err // without the text that pgx adds
	}
	found.Clear() // the next use looks again
	// The sequence may be gone: see lockdb.SameSchema.
	if sqlstate.Of(err) == sqlstate.InternalError {
		return fmt.Errorf("%w: %w", sqlstate.ErrReplaced, err)
	}
	return err
}

// lookAside is [Look] in a transaction of its own, or in a savepoint of the present one: the statement is not compiled, which
// can take seconds where settings make every plan look costly, and the setting does not stay.
func lookAside(ctx context.Context, conn *pgx.Conn, named []string) (looked Looked, err error) {
	begin, end := lockdb.BeginReadCommitted, lockdb.Commit
	if conn.PgConn().TxStatus() != 'I' {
		begin, end = lockdb.Savepoint, lockdb.RollbackToSavepoint+";"+lockdb.ReleaseSavepoint
	}
	begin += ";" + lockdb.SetNoJIT + ";" + lockdb.SetNoStatementTimeout + ";" + lockdb.SetNoIdleTimeout
	if _, err := conn.PgConn().Exec(ctx, begin).ReadAll(); err != nil {
		return looked, err
	}
	looked, err = Look(ctx, conn, named)
	_, endErr := conn.PgConn().Exec(ctx, end).ReadAll()
	return looked, cmp.Or(err, endErr)
}

// who returns which database a connection leads to, and as which role. The connection keeps the result, since Config
// copies the whole configuration, and each use asks.
func who(conn *pgx.Conn) string {
	remembered := conn.PgConn().CustomData()
	if who, ok := remembered[whoData].(string); ok {
		return who
	}
	config := conn.Config()
	who := fmt.Sprint(config.Host, "\x01", config.Port, "\x01", config.Database, "\x01", config.User)
	remembered[whoData] = who
	return who
}

const whoData = "pglock.who"
