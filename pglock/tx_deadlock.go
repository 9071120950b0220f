package pglock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/lockkeys"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/pglock/internal/between"
)

// placedTx is a transaction, and where it is.
type placedTx struct {
	tx     between.Tx
	server string // as the place of a Lock of a session
}

// txContext is a context for work in a transaction.
type txContext struct {
	context.Context
	tie placedTx
}

// Value also says that there is something to find in the chain of contexts.
func (c *txContext) Value(key any) any {
	if key == (ancestry{}) {
		return c
	}
	return c.Context.Value(key)
}

// TxContext returns a context for work in tx: a call of a [Locker] that waits with it counts as the transaction
// waiting, which holds row locks, and what [LockTx] has taken. So a deadlock through both ends, as [Locker.Lock]
// describes. (PostgreSQL cannot know that the transaction waits.) If ctx descends from the [Lock.Context] of a Lock, tx
// counts as that Lock's work: when it waits, so does the Lock's holder, and the next holder's [Lock.GuardTx] waits
// until tx has ended. The context ends with ctx, and not with tx. It makes one round trip, and needs the Locker and tx
// to be of the same role.
func TxContext(ctx context.Context, tx pgx.Tx) (context.Context, error) {
	if tx == nil {
		return nil, errors.New("pglock: tie a context to a transaction: the transaction is nil")
	}
	var companions []int64
	for _, lock := range ancestors(ctx) {
		for _, key := range lock.keys() {
			if b := lock.hold.locker.lookout.backend; b != nil {
				companions = append(companions, lockkeys.Companion(b.Published(key.KeyID), lock.hold.shared))
			}
		}
	}
	tie, err := identifyTx(ctx, tx, companions)
	if err != nil {
		return nil, err
	}
	return &txContext{ctx, tie}, nil
}

func identifyTx(ctx context.Context, tx pgx.Tx, companions []int64) (placedTx, error) {
	row, err := lockdb.New(inOneRoundTrip(tx)).IdentifyTx(ctx, companions)
	if err != nil {
		return placedTx{}, sqlstate.Explain(sqlstate.EndedBy(ctx, err))
	}
	return placedTx{between.Tx{PID: row.Pid, Began: row.Began}, row.Server}, nil
}

// identified returns a statement that takes one lock, and says also what IdentifyTx does.
func identified(statement string, args []any) (string, []any) {
	identify := strings.Replace(lockdb.IdentifyTx, "$1", fmt.Sprint("$", len(args)+1), 1)
	return "SELECT * FROM (" + statement + ") AS lock CROSS JOIN (" + identify + ") AS tx", append(args, []int64(nil))
}

// waitTx calls ask, which waits in tx for the keys, and takes part in the search for deadlocks if ctx descends from
// that of a Lock. Within the process a deadlock is found before the wait. Otherwise the victim's statement is cancelled:
// its transaction is aborted, and can go back to a savepoint, since no request to cancel comes after waitTx.
func waitTx(ctx context.Context, tx pgx.Tx, keys []Key, shared bool, ask func(context.Context) error) error {
	held, txs := lineage(ctx)
	if len(held) == 0 {
		return ask(ctx)
	}
	tie, err := identifyTx(ctx, tx, nil)
	if err != nil {
		return newTxRequest(true, keys...).result(ctx, txGranted, err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	v := &txVictim{conn: tx.Conn(), cancel: cancel}
	asked := driverKeys(keys)
	w := &wait{keys: asked, asked: asked, shared: shared, held: held, txs: txs, place: tie.server, giveUp: v.giveUp}
	graph := held[0].hold.locker.graph
	if err := graph.begin(w); err != nil {
		return err
	}
	defer graph.end(w)
	return v.result(ask(ctx))
}

// txVictim makes a transaction's wait fail. No request to cancel hits a later statement, such as the ROLLBACK TO of a
// bounded wait: result and a request exclude each other by mu. If result is first, no request is sent any more. If the
// request is, the server has signalled the session when it answers, so the signal hits the wait or finds the session
// idle, where PostgreSQL ignores it. Without an answer the connection is closed.
type txVictim struct {
	conn   *pgx.Conn               // nil if the driver is another
	cancel context.CancelCauseFunc // which closes the connection

	mu   sync.Mutex // held while the wait is being cancelled
	over bool
	why  error
}

// giveUp cancels the wait, and again after a while if it has not ended by then: a request that overtakes the statement finds
// an idle session, and does nothing.
func (v *txVictim) giveUp(why error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.over {
		return
	}
	v.why = why
	ctx, cancel := context.WithTimeout(context.Background(), cancelTxWithin)
	defer cancel()
	switch {
	case v.conn == nil:
		v.cancel(why)
	case v.conn.PgConn().CancelRequest(ctx) != nil || ctx.Err() != nil:
		_ = v.conn.PgConn().Conn().Close() // even if the wait is over
	default:
		time.AfterFunc(cancelTxAgain, func() { v.giveUp(why) })
	}
}

// result returns the result of the wait, whose error is err. A grant that came first wins.
func (v *txVictim) result(err error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.over = true
	if err != nil && v.why != nil {
		return v.why
	}
	return err
}

const (
	cancelTxWithin = 5 * time.Second
	cancelTxAgain  = 200 * time.Millisecond
)
