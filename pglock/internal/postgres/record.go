package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Record implements [driver.Recorder].
func (b *Backend) Record(keys []driver.Key) {
	if b.names != nil {
		b.names.Note(keys)
	}
}

// Tick implements [driver.TickRecorder].
func (b *Backend) Tick(ctx context.Context, r driver.TickRequest) (driver.TickState, error) {
	return b.ticks.Tick(ctx, r)
}

// TickTx implements [driver.TxTickRecorder].
func (b *Backend) TickTx(ctx context.Context, tx pgx.Tx, r driver.TickRequest) (driver.TickState, error) {
	return b.ticks.TickTx(ctx, tx, r)
}

var _ interface {
	driver.Recorder
	driver.TickRecorder
	driver.TxTickRecorder
} = (*Backend)(nil)
