package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/examples/billing/db"
	"github.com/pglock-toolkit/pglock/examples/billing/locks"
	"github.com/pglock-toolkit/pglock/pglock"
)

//go:embed schema.sql
var schema string

// install creates the tables. Processes that start at the same time take turns, since concurrent CREATE TABLE IF NOT
// EXISTS can fail.
func install(ctx context.Context, pool *pgxpool.Pool) error {
	return pglock.BeginFunc(ctx, pool, locks.BillingSchema(), func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, schema)
		return err
	})
}

type service struct {
	pool   *pgxpool.Pool
	locker *pglock.Locker
	mail   func(ctx context.Context, tenant, month string, cents int64) error
}

func newService(
	pool *pgxpool.Pool, locker *pglock.Locker, mail func(ctx context.Context, tenant, month string, cents int64) error,
) *service {
	return &service{pool, locker, mail}
}

func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /tenants/{tenant}/invoices/{id}", answer(s.addInvoice))
	mux.HandleFunc("POST /invoices/{id}/pay", answer(s.payInvoice))
	mux.HandleFunc("POST /tenants/{tenant}/close/{month}", answer(s.closeMonth))
	mux.HandleFunc("GET /tenants/{tenant}/statements", answer(s.statements))
	return mux
}

// inTx runs queries that take their locks. A lock that is held for longer than its max_wait aborts the transaction.
func (s *service) inTx(ctx context.Context, fn func(q *db.Queries) error) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return fn(db.New(locks.Tx(tx))) })
}

func (s *service) addInvoice(r *http.Request) (any, error) {
	id, err := number(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	cents, err := number(r.FormValue("cents"))
	if err != nil {
		return nil, err
	}
	invoice := db.AddInvoiceParams{ID: id, Tenant: r.PathValue("tenant"), Cents: cents}
	return invoice, s.inTx(r.Context(), func(q *db.Queries) error { return q.AddInvoice(r.Context(), invoice) })
}

var errPaid = errors.New("there is no such invoice, or it has been paid")

func (s *service) payInvoice(r *http.Request) (any, error) {
	id, err := number(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return map[string]int64{"paid": id}, s.inTx(r.Context(), func(q *db.Queries) error {
		n, err := q.PayInvoice(r.Context(), id) // one round trip: the lock of the invoice, and the UPDATE
		if err == nil && n == 0 {
			err = errPaid
		}
		return err
	})
}

// closeMonth sums up a tenant's open invoices, mails the sum, and records the statement. It holds the tenant's lock all
// the time, so no invoice is added meanwhile and no other process closes the month, but no transaction is open while
// the mail is sent. If the lock is lost, ctx ends, and GuardTx keeps the statement from being written.
func (s *service) closeMonth(r *http.Request) (any, error) {
	statement := db.AddStatementParams{Tenant: r.PathValue("tenant"), Month: r.PathValue("month")}
	return &statement, s.locker.TryDo(r.Context(), locks.Tenant(statement.Tenant), func(ctx context.Context, lock *pglock.Lock) error {
		var err error
		if statement.Cents, err = db.New(s.pool).OpenCents(ctx, statement.Tenant); err != nil {
			return err
		}
		if err := s.mail(ctx, statement.Tenant, statement.Month, statement.Cents); err != nil {
			return err
		}
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			if err := lock.GuardTx(ctx, tx); err != nil {
				return err
			}
			return db.New(tx).AddStatement(ctx, statement)
		})
	})
}

func (s *service) statements(r *http.Request) (any, error) {
	return db.New(s.pool).Statements(r.Context(), r.PathValue("tenant"))
}

var errNumber = errors.New("want a number")

func number(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q: %w", text, errNumber)
	}
	return n, nil
}

// answer writes the result of a request as JSON, or its error with a status that says what the client can do.
func answer(handle func(r *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		result, err := handle(r)
		if err != nil {
			status := statusOf(err)
			if status == http.StatusLocked || status == http.StatusServiceUnavailable {
				w.Header().Set("Retry-After", "1")
			}
			http.Error(w, err.Error(), status)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(result) // the client may have gone
	}
}

func statusOf(err error) int {
	switch {
	case errors.Is(err, pglock.ErrNotAcquired):
		return http.StatusLocked
	case errors.Is(err, pglock.ErrLost), errors.Is(err, pglock.ErrUnavailable):
		return http.StatusServiceUnavailable
	case errors.Is(err, pglock.ErrInvalidKey), errors.Is(err, errNumber):
		return http.StatusBadRequest
	case errors.Is(err, errPaid):
		return http.StatusConflict
	}
	return http.StatusInternalServerError
}
