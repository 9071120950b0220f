// Package web has two parts of an HTTP server: requests that are carried out once, however often they are sent, and a
// limit on how often they may be sent.
package web

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/once"
)

// Order is the body of a request and of its answer.
type Order struct {
	ID   int64  `json:"id"`
	Item string `json:"item"`
}

// Orders creates an order for each Idempotency-Key of an account.
type Orders struct {
	Pool    *pgxpool.Pool
	Account func(*http.Request) string
	Insert  func(ctx context.Context, tx pgx.Tx, order Order) (id int64, err error)
}

// ServeHTTP answers a repeated request like the first one. It answers 409 while the first one is being carried out, and
// 422 if the key was used for another request.
func (o *Orders) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	if key == "" {
		http.Error(w, "the header Idempotency-Key is missing", http.StatusBadRequest)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var order Order
	if err := json.Unmarshal(body, &order); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	orders, err := once.New(pglock.NewKey("orders:" + o.Account(r)))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	replayed := false
	err = pgx.BeginFunc(r.Context(), o.Pool, func(tx pgx.Tx) (err error) {
		order, replayed, err = once.Result(r.Context(), tx, orders.Matching(body), key, func(tx pgx.Tx) (Order, error) {
			id, err := o.Insert(r.Context(), tx, order)
			return Order{id, order.Item}, err
		}, pglock.MaxWait(0))
		return err
	})
	switch {
	case errors.Is(err, once.ErrMismatch):
		http.Error(w, "this key was used for another request", http.StatusUnprocessableEntity)
	case errors.Is(err, pglock.ErrNotAcquired):
		http.Error(w, "this request is being carried out", http.StatusConflict)
	case err != nil:
		http.Error(w, "try again", http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", "application/json")
		if replayed {
			w.Header().Set("Idempotency-Replayed", "true")
		}
		_ = json.NewEncoder(w).Encode(order) // the client may have gone
	}
}
