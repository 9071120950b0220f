package recorder

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/trust"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wire"
	"github.com/pglock-toolkit/pglock/pglock/internal/records"
)

// Runs is the connection on which package schedule records runs of jobs.
type Runs struct {
	link   *link
	owners []string // roles that may own the schema
	trust  trust.Checker
}

// NewRuns returns a Runs that has not dialled yet.
func NewRuns(dialer *wire.Dialer, owners []string) *Runs {
	return &Runs{link: newLink(dialer), owners: owners}
}

// Do calls use with the connection. If that ends or falls silent, Do calls use again, once, on a new one.
func (r *Runs) Do(ctx context.Context, use func(context.Context, *pgx.Conn) error) error {
	return r.link.do(ctx, use)
}

// In returns what sends statements on the connection, or in a transaction, if schema pglock is to be trusted.
func (r *Runs) In(db records.Sender) records.Guarded {
	return records.Guarded{DB: db, Trust: &r.trust, Owners: r.owners}
}

// Close ends the connection. One that is in use ends after the call.
func (r *Runs) Close() { r.link.close() }
