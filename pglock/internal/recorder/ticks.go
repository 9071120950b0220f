package recorder

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wire"
	"github.com/pglock-toolkit/pglock/pglock/internal/records"
)

// Ticks records runs of scheduled jobs. It implements [driver.TickRecorder] and [driver.TxTickRecorder].
type Ticks struct {
	link   *link
	owners []string // roles that may own the schema
	trust  records.Trust
}

// NewTicks returns a Ticks that has not dialled yet.
func NewTicks(dialer *wire.Dialer, owners []string) *Ticks {
	return &Ticks{link: newLink(dialer), owners: owners}
}

// Tick implements [driver.TickRecorder].
func (t *Ticks) Tick(ctx context.Context, r driver.TickRequest) (state driver.TickState, err error) {
	err = t.link.do(ctx, func(conn *pgx.Conn) (err error) {
		state, err = t.tick(ctx, conn, r)
		return err
	})
	return state, err
}

// TickTx implements [driver.TxTickRecorder].
func (t *Ticks) TickTx(ctx context.Context, tx pgx.Tx, r driver.TickRequest) (driver.TickState, error) {
	state, err := t.tick(ctx, tx, r)
	return state, wire.Classify(err)
}

func (t *Ticks) tick(ctx context.Context, db records.Sender, r driver.TickRequest) (driver.TickState, error) {
	guarded := records.Guarded{DB: db, Trust: &t.trust, Owners: t.owners}
	return scanTick(guarded.QueryRow(ctx, lockdb.Tick, tickArgs(r)...))
}

// Close ends the connection. If a caller uses it, it ends after that.
func (t *Ticks) Close() { t.link.close() }

// tickArgs returns the arguments of the statement. The interval has microseconds only, since the length of months and days
// depends on the calendar.
func tickArgs(r driver.TickRequest) []any {
	keep := pgtype.Interval{Microseconds: r.Keep.Microseconds(), Valid: r.Keep > 0}
	return []any{r.Job, r.Due, string(r.Step), keep, int32(r.Newest)}
}

func scanTick(row pgx.Row) (state driver.TickState, err error) {
	var pruned *time.Time
	if err := row.Scan(&state.At, &state.Done, &pruned, &state.Dues); err != nil {
		return driver.TickState{}, err
	}
	if pruned != nil {
		state.Pruned = *pruned
	}
	return state, nil
}
