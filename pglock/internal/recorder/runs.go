package recorder

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/runstore"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wire"
	"github.com/pglock-toolkit/pglock/pglock/internal/records"
)

// Runs records runs of jobs, for package schedule, on a connection that is not a lock session.
type Runs struct {
	link   *link
	owners []string // roles that may own the schema
}

// NewRuns returns a Runs that has not dialled yet.
func NewRuns(dialer *wire.Dialer, owners []string) *Runs {
	return &Runs{link: newLink(dialer), owners: owners}
}

// RecordRun implements [runstore.Store].
//
// A step whose answer was lost is sent again on a new connection. For all steps but one that is harmless, although a
// second StepAttempt may count twice. A StepStart that was recorded looks the second time as if another process had been
// first. Whichever it was, the run must not begin, so the record wins, and the error says what is not known.
func (r *Runs) RecordRun(ctx context.Context, q runstore.Request) (state runstore.State, err error) {
	unanswered := false
	err = r.link.do(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		state, err = r.step(ctx, conn, q)
		if err == nil && state.Done && unanswered && q.Step == runstore.StepStart {
			return errUnanswered
		}
		unanswered = unanswered || err != nil && conn.IsClosed() && !sqlstate.Unsent(err)
		return err
	})
	return state, err
}

var errUnanswered = fmt.Errorf("%w: the connection ended while the start of the run was being recorded; it was recorded, "+
	"so the run is not repeated", driver.ErrUnavailable)

// RecordRunIn implements [runstore.TxStore].
func (r *Runs) RecordRunIn(ctx context.Context, tx pgx.Tx, q runstore.Request) (runstore.State, error) {
	state, err := r.step(ctx, tx, q)
	return state, sqlstate.ExplainSchema(sqlstate.EndedBy(ctx, err))
}

func (r *Runs) step(ctx context.Context, db records.Sender, q runstore.Request) (runstore.State, error) {
	row, err := records.Guarded{DB: db, Owners: r.owners}.Queries().Tick(ctx, records.TickParams(q))
	if err != nil {
		return runstore.State{}, err
	}
	return records.TickState(row), nil
}

// Close ends the connection. One that is in use ends after the call.
func (r *Runs) Close() { r.link.close() }
