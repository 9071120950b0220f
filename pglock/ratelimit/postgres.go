package ratelimit

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/internal/records"
)

// DB is a pool of connections, such as *pgxpool.Pool. Several goroutines use it at once, and each statement is a
// separate transaction, so neither a connection nor a transaction will do.
type DB interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// New returns a Limiter whose limits are in schema pglock of db. It uses a few connections at most, and does not
// connect yet. Rows stay until [Limiter.Prune] deletes those that no longer matter.
func New(db DB, opts ...Option) (*Limiter, error) {
	_, isTx := db.(pgx.Tx)
	_, isConn := db.(*pgx.Conn)
	switch {
	case db == nil:
		return nil, errors.New("pglock/ratelimit: the DB is nil")
	case isTx:
		return nil, errors.New("pglock/ratelimit: the DB is a transaction: keys would stay locked until it ends, and a rollback would undo what was counted (use a pool)")
	case isConn:
		return nil, errors.New("pglock/ratelimit: the DB is a connection, which goroutines cannot share (use a pool)")
	}
	l, err := newLimiter(opts)
	if err != nil {
		return nil, err
	}
	guarded := records.Guarded{DB: db, Trust: &records.Trust{Option: "ratelimit.WithTrustedOwner"}, Owners: l.config.owners}
	l.store = &postgres{guarded.Queries()}
	return l, nil
}

// postgres implements [Store] and [Pruner].
type postgres struct{ queries *lockdb.Queries }

func (p *postgres) Take(ctx context.Context, runs []Run) ([]Grant, error) {
	n := len(runs)
	params := lockdb.RateTakeParams{
		Keys: make([]string, n), Intervals: make([]int64, n), Tolerances: make([]int64, n),
		Amounts: make([]int64, n), Counts: make([]int64, n), Patiences: make([]int64, n),
	}
	for i, r := range runs {
		params.Keys[i], params.Intervals[i], params.Tolerances[i] = r.Key, r.Interval, r.Tolerance
		params.Amounts[i], params.Counts[i], params.Patiences[i] = r.Amount, r.Count, r.Patience
	}
	var rows []lockdb.RateTakeRow
	err := records.Again(ctx, func() (err error) {
		rows, err = p.queries.RateTake(ctx, params)
		return err
	})
	if err != nil {
		return nil, records.Unavailable(ctx, err)
	}
	if len(rows) != n {
		return nil, fmt.Errorf("the server decided %d of %d runs", len(rows), n)
	}
	grants := make([]Grant, n)
	for i, row := range rows {
		grants[i] = Grant{Granted: row.Granted, Start: row.Start, At: row.At}
	}
	return grants, nil
}

func (p *postgres) Return(ctx context.Context, key string, until, price int64) (bool, error) {
	var returned bool
	err := records.Again(ctx, func() (err error) {
		returned, err = p.queries.RateReturn(ctx, lockdb.RateReturnParams{Key: key, TakenUntil: until, Price: price})
		return err
	})
	return returned, records.Unavailable(ctx, err)
}

// Prune deletes in steps, so that no session has to wait long for a row.
func (p *postgres) Prune(ctx context.Context) (deleted int64, err error) {
	for {
		var n int64
		err := records.Again(ctx, func() (err error) {
			n, err = p.queries.RatePrune(ctx, pruneAtOnce)
			return err
		})
		deleted += n
		if err != nil || n < pruneAtOnce {
			return deleted, records.Unavailable(ctx, err)
		}
	}
}

const pruneAtOnce = 1000
