package recorder

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/internal/between"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wire"
)

// Waits publishes the waits of this process, and sees those of others, on a connection whose last statement they see.
type Waits struct{ link *link }

// NewWaits returns a Waits that has not dialled yet.
func NewWaits(dialer *wire.Dialer) *Waits { return &Waits{newLink(dialer)} }

// Look publishes text, which [between.Text] has made, in place of the last one, and looks.
func (w *Waits) Look(ctx context.Context, text string) (between.Sight, error) {
	var answer string
	err := w.link.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, text+lockdb.LookAtWaits, "").Scan(&answer)
	})
	if err != nil {
		return between.Sight{}, err
	}
	return between.Read(answer)
}

// Close ends the connection.
func (w *Waits) Close() { w.link.close() }
