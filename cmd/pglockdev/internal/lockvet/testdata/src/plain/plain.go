package plain

import (
	"context"

	"db"
	"locks"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pglock-toolkit/pglock/pglock/querylock"
)

type service struct {
	q    *db.Queries
	good *db.Queries
}

func newService(pool *pgxpool.Pool) *service { return &service{q: db.New(pool)} }

func (s *service) pay(ctx context.Context, tx pgx.Tx) {
	s.q.PayInvoice(ctx, 1) // want `PayInvoice runs on a plain pgxpool.Pool, which does not take its lock invoice:\{id\}`
	s.q.List(ctx)
	s.q.WithTx(tx).PayInvoice(ctx, 1) // want `runs on a plain pgx.Tx`
	s.q.WithTx(tx).List(ctx)
	q := db.New(tx)
	q.PayInvoice(ctx, 1)       // want `runs on a plain pgx.Tx`
	q.WithArgument(ctx, tx, 1) // want `WithArgument runs on a plain pgx.Tx`
}

func begun(ctx context.Context, pool *pgxpool.Pool, conn *pgx.Conn) {
	tx, _ := pool.Begin(ctx)
	db.New(tx).PayInvoice(ctx, 1)   // want `runs on a plain pgx.Tx`
	db.New(conn).PayInvoice(ctx, 1) // want `runs on a plain pgx.Conn`
	var querier db.Querier = db.New(pool)
	querier.PayInvoice(ctx, 1) // want `runs on a plain pgxpool.Pool`
	passed(ctx, db.New(pool))
}

func passed(ctx context.Context, q *db.Queries) {
	q.PayInvoice(ctx, 1) // want `runs on a plain pgxpool.Pool`
}

func fine(ctx context.Context, s *service, tx pgx.Tx, locked *querylock.Tx, unknown *db.Queries, own fake) {
	db.New(locks.Tx(tx)).PayInvoice(ctx, 1)
	s.q.WithTx(locks.Tx(tx)).PayInvoice(ctx, 1)
	db.New(locked).PayInvoice(ctx, 1)
	var wrapped pgx.Tx = locks.Tx(tx)
	db.New(wrapped).PayInvoice(ctx, 1)
	nested, _ := locked.Begin(ctx)
	db.New(nested).PayInvoice(ctx, 1)
	unknown.PayInvoice(ctx, 1)
	db.New(own).PayInvoice(ctx, 1)
	unknown.WithArgument(ctx, locked, 1)
	s.good = db.New(locked)
	s.good.PayInvoice(ctx, 1)
}

type fake struct{}

func (fake) Exec(context.Context, string, ...any) error { return nil }
