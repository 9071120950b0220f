package recorder

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
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
//
// A step whose answer was lost is sent again on a new connection. For all steps but one that is harmless, although a
// second TickAttempt may count twice. A TickStart that was recorded looks the second time as if another process had been
// first. Whichever it was, the run must not begin, so the record wins, and the error says what is not known.
func (t *Ticks) Tick(ctx context.Context, r driver.TickRequest) (state driver.TickState, err error) {
	unanswered := false
	err = t.link.do(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		state, err = t.tick(ctx, conn, r)
		if err == nil && state.Done && unanswered && r.Step == driver.TickStart {
			return errUnanswered
		}
		unanswered = unanswered || err != nil && conn.IsClosed() && !pgconn.SafeToRetry(err)
		return err
	})
	return state, err
}

var errUnanswered = fmt.Errorf("%w: the connection ended while the start of the run was being recorded; it was recorded, "+
	"so the run is not repeated", driver.ErrUnavailable)

// TickTx implements [driver.TxTickRecorder].
func (t *Ticks) TickTx(ctx context.Context, tx pgx.Tx, r driver.TickRequest) (driver.TickState, error) {
	state, err := t.tick(ctx, tx, r)
	return state, sqlstate.ExplainSchema(sqlstate.EndedBy(ctx, err))
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
