package pglock

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// DB is a pool or a connection of pgx.
type DB interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}
