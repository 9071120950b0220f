package ratelimit

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/options"
	"github.com/pglock-toolkit/pglock/internal/ratestore"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/internal/records"
)

// New returns the limiter named by key, whose state is in schema pglock of db. Limiters with equal keys in one database
// are one limiter, in all processes. db is a pool. It uses a few connections at most, and does not connect yet. Rows
// stay until [Prune] deletes those that no longer matter.
func New(db pglock.DB, key pglock.Key, opts ...Option) (*Limiter, error) {
	if err := checkDB(db); err != nil {
		return nil, fmt.Errorf("pglock/ratelimit: %w", err)
	}
	l, err := newLimiter(key, opts)
	if err != nil {
		return nil, err
	}
	l.store = newPostgres(db, l.config)
	return l, nil
}

func checkDB(db pglock.DB) error {
	_, isConn := db.(*pgx.Conn)
	switch {
	case db == nil:
		return errors.New("the DB is nil")
	case isConn:
		return errors.New("the DB is a connection, which goroutines cannot share (use a pool)")
	}
	return nil
}

// postgres implements [ratestore.Store].
type postgres struct{ queries *lockdb.Queries }

func newPostgres(db pglock.DB, c config) *postgres {
	return &postgres{records.Guarded{DB: db, Owners: c.owners}.Queries()}
}

func (p *postgres) Take(ctx context.Context, runs []ratestore.Run) ([]ratestore.Grant, error) {
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
		return nil, records.Explain(ctx, err)
	}
	if len(rows) != n {
		return nil, fmt.Errorf("the server decided %d of %d runs", len(rows), n)
	}
	grants := make([]ratestore.Grant, n)
	for i, row := range rows {
		grants[i] = ratestore.Grant{Granted: row.Granted, Start: row.Start, At: row.At}
	}
	return grants, nil
}

func (p *postgres) Return(ctx context.Context, key string, until, price int64) (bool, error) {
	var returned bool
	err := records.Again(ctx, func() (err error) {
		returned, err = p.queries.RateReturn(ctx, lockdb.RateReturnParams{Key: key, TakenUntil: until, Price: price})
		return err
	})
	return returned, records.Explain(ctx, err)
}

// Prune deletes the state of ids, under all keys, that have been idle so long that it no longer matters. It reads the
// whole table, so call it occasionally, for example every hour, from one process. It deletes in steps, so that no
// session waits long for a row. On Redis state expires by itself.
func Prune(ctx context.Context, db pglock.DB, opts ...Option) error {
	var c config
	err := errors.Join(options.Apply(&c, opts), checkDB(db))
	if err != nil {
		return fmt.Errorf("pglock/ratelimit: prune: %w", err)
	}
	queries := newPostgres(db, c).queries
	if err := records.Delete(ctx, func(most int32) (int64, error) { return queries.RatePrune(ctx, most) }); err != nil {
		return fmt.Errorf("pglock/ratelimit: prune: %w", err)
	}
	return nil
}
