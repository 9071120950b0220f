package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/trust"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wire"
	"github.com/pglock-toolkit/pglock/pglock/internal/records"
)

// ticks records runs of scheduled jobs, on a connection of its own, which is closed when nothing came for a while: a
// commit that hangs (synchronous replication) must never hold up a session that holds locks.
type ticks struct {
	dialer *wire.Dialer
	owners []string      // trusted ones of the schema
	turn   chan struct{} // has room while conn is not used
	trust  records.Trust

	conn *pgx.Conn // used by the owner of turn

	mu     sync.Mutex
	idle   *time.Timer
	closed bool
}

func newTicks(dialer *wire.Dialer, owners []string) *ticks {
	return &ticks{dialer: dialer, owners: owners, turn: make(chan struct{}, 1)}
}

// Tick implements [driver.TickRecorder].
func (b *Backend) Tick(ctx context.Context, r driver.TickRequest) (driver.TickState, error) {
	t := b.ticks
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return driver.TickState{}, context.Cause(ctx)
	}
	defer t.leave()
	state, err := t.record(ctx, r)
	if err != nil && pgconn.SafeToRetry(err) && ctx.Err() == nil { // the kept connection had ended
		state, err = t.record(ctx, r)
	}
	return state, wire.Classify(err)
}

// record runs under the turn.
func (t *ticks) record(ctx context.Context, r driver.TickRequest) (state driver.TickState, err error) {
	if err := t.open(ctx); err != nil {
		return state, err
	}
	if err = t.trust.Check(ctx, t.conn, records.Who(t.conn), t.owners); err == nil {
		state, err = scanTick(t.conn.QueryRow(ctx, lockdb.Tick, tickArgs(r)...))
	}
	if err != nil {
		t.hangUp()
	}
	return state, err
}

// open dials unless there is a connection. It runs under the turn.
func (t *ticks) open(ctx context.Context) error {
	t.mu.Lock()
	closed := t.closed
	if t.idle != nil {
		t.idle.Stop()
	}
	t.mu.Unlock()
	if closed {
		return driver.ErrClosed
	}
	if t.conn != nil && !t.conn.IsClosed() {
		return nil
	}
	conn, err := t.dialer.Connect(ctx, func(*pgx.ConnConfig) {})
	t.conn = conn
	return err
}

// leave gives the turn to the next, and has the connection closed when there is none for a while.
func (t *ticks) leave() {
	t.mu.Lock()
	switch {
	case t.closed:
		t.hangUp()
	case t.idle == nil:
		t.idle = time.AfterFunc(idleFor, t.rest)
	default:
		t.idle.Reset(idleFor)
	}
	t.mu.Unlock()
	<-t.turn
}

// rest closes an idle connection.
func (t *ticks) rest() {
	select {
	case t.turn <- struct{}{}:
		t.hangUp()
		<-t.turn
	default: // it is in use again
	}
}

// hangUp runs under the turn.
func (t *ticks) hangUp() {
	if t.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = t.conn.Close(ctx) // it closes the socket in any case
		t.conn = nil
	}
}

// close ends the connection. If it is in use it ends when that is over.
func (t *ticks) close(ctx context.Context) {
	t.mu.Lock()
	t.closed = true
	if t.idle != nil {
		t.idle.Stop()
	}
	t.mu.Unlock()
	select {
	case t.turn <- struct{}{}:
		t.hangUp()
		<-t.turn
	case <-ctx.Done():
	}
}

// TickTx implements [driver.TxTickRecorder].
func (b *Backend) TickTx(ctx context.Context, tx pgx.Tx, r driver.TickRequest) (driver.TickState, error) {
	if err := trust.Check(ctx, tx, b.options.TrustedOwners, "schema_migrations", "tick"); err != nil {
		return driver.TickState{}, wire.Classify(err)
	}
	state, err := scanTick(tx.QueryRow(ctx, lockdb.Tick, tickArgs(r)...))
	return state, wire.Classify(err)
}

// tickArgs are the arguments of the statement. An interval's field for months and days would depend on the calendar.
func tickArgs(r driver.TickRequest) []any {
	keep := pgtype.Interval{Microseconds: r.Keep.Microseconds(), Valid: r.Keep > 0}
	return []any{pgx.QueryExecModeExec, r.Job, r.Due, string(r.Step), keep, int32(r.Newest)}
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

var _ interface {
	driver.TickRecorder
	driver.TxTickRecorder
} = (*Backend)(nil)
