package records

import (
	"cmp"
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/trust"
	"github.com/pglock-toolkit/pglock/pglock/internal/lastrows"
)

// Sender is a pool, a connection or a transaction.
type Sender interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// Guarded sends each statement in one message with a look at the owner of the schema, see [trust.Queue]. Outside a
// transaction the two form one. It implements [lockdb.DBTX].
type Guarded struct {
	DB     Sender
	Owners []string
	// Own adds a BEGIN and a COMMIT to the message, for statements that need READ COMMITTED whatever the default is, are not
	// compiled, have to be durable, and to be told if a standby did not confirm the commit. A wait for a locked row ends
	// soon (55P03). After an error of the server the transaction is still open.
	Own bool
}

// Queries are the statements of the records.
func (g Guarded) Queries() *lockdb.Queries { return lockdb.New(g) }

// own begins a transaction that is independent of what role and database are configured to do.
var own = []string{
	lockdb.BeginReadWrite, lockdb.SetNoJIT, lockdb.SetNoStatementTimeout, lockdb.SetDurable, lockdb.SetTurn, lockdb.SetDates, lockdb.SetWarnings,
}

// send returns the results of the statement, after reading those before it.
func (g Guarded) send(ctx context.Context, sql string, args []any) (pgx.BatchResults, error) {
	batch := &pgx.Batch{}
	if g.Own {
		for _, setting := range own {
			batch.Queue(setting)
		}
	}
	look := trust.Queue(batch, g.Owners)
	before := batch.Len()
	batch.Queue(sql, args...)
	if g.Own {
		batch.Queue(lockdb.Commit)
	}
	results := g.DB.SendBatch(ctx, batch)
	for range before {
		if _, err := results.Exec(); err != nil {
			_ = results.Close() // it has the same error
			return nil, look.Err(err)
		}
	}
	return results, nil
}

// Exec implements [lockdb.DBTX].
func (g Guarded) Exec(ctx context.Context, sql string, args ...any) (tag pgconn.CommandTag, err error) {
	results, err := g.send(ctx, sql, args)
	if err != nil {
		return tag, err
	}
	tag, err = results.Exec()
	return tag, cmp.Or(err, results.Close())
}

// QueryRow implements [lockdb.DBTX].
func (g Guarded) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	results, err := g.send(ctx, sql, args)
	if err != nil {
		return failed{err}
	}
	return lastrows.Row{Results: results}
}

// failed is the row of a statement that was not executed.
type failed struct{ err error }

func (f failed) Scan(...any) error { return f.err }

// Query implements [lockdb.DBTX].
func (g Guarded) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	results, err := g.send(ctx, sql, args)
	if err != nil {
		return nil, err
	}
	return lastrows.Query(results)
}
