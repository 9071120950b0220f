package pglock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
)

// txAllWaits are txForms, with MaxWait too.
var txAllWaits = txAllForms[:len(txAllForms)-1]

type txEnd struct {
	begin    func(context.Context) (ctx context.Context, end func())
	byItself bool
	match    []error
}

// txEnds are the ways in which a context ends.
var txEnds = map[string]txEnd{
	"cancelled": {
		begin: func(ctx context.Context) (context.Context, func()) { return context.WithCancel(ctx) },
		match: []error{context.Canceled},
	},
	"cancelled with a cause": {
		begin: func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { cancel(errTxCause) }
		},
		match: []error{context.Canceled, errTxCause},
	},
	"timed out": {
		begin:    func(ctx context.Context) (context.Context, func()) { return context.WithTimeout(ctx, 5*txShort) },
		byItself: true,
		match:    []error{context.DeadlineExceeded},
	},
}

var errTxCause = errors.New("the request was withdrawn")

// txCancelOnServer makes pgx ask the server to cancel a statement whose context has ended, and keep the connection.
func txCancelOnServer(config *pgx.ConnConfig) {
	config.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: txLong}
	}
}

func TestTxTheContextEndsTheWait(t *testing.T) {
	t.Parallel()
	for handler, change := range map[string]func(*pgx.ConnConfig){
		"the connection is closed": nil, "the statement is cancelled": txCancelOnServer,
	} {
		for how, end := range txEnds {
			t.Run(how+", "+handler, func(t *testing.T) {
				t.Parallel()
				db, key := testenv.Database(t), pglock.NewKey("invoice:42")
				forms := txAllWaits
				if end.byItself {
					forms = txForms[2:] // one form will do: a busy machine may not have sent the statement by then
				}
				for _, form := range forms {
					holder := txHold(t, db, key)
					conn := txConnect(t, db.ConnString(), change)
					tx := txBegin(t, conn)
					txCheck(t, pglock.LockTx(t.Context(), tx, pglock.Int64Key(1)))

					err := txEndWhileWaiting(t, db, end, func(ctx context.Context) error { return form.lock(ctx, tx, key) })

					wait := txWantWaitError(t, err, key)
					for _, match := range end.match {
						if !errors.Is(err, match) {
							t.Errorf("%s: the error %q is not %q", form.name, err, match)
						}
					}
					if !form.batch && wait.Waited <= 0 {
						t.Errorf("%s: it does not say how long it waited", form.name)
					}
					if closed := conn.IsClosed(); closed != (change == nil) {
						t.Errorf("%s: the connection is closed: %t", form.name, closed)
					}
					if change != nil {
						txWantAborted(t, conn)
						txCheck(t, tx.Rollback(t.Context()))
					}
					// A request to cancel that comes before the statement ends nothing, as LockTx says. Then the server finds that
					// the connection is closed when the holder leaves.
					if !end.byItself {
						testenv.WaitUntil(t, "only the holder's lock is left", func() bool { return len(db.AdvisoryLocks(t)) == 1 })
					}
					txCheck(t, holder.Rollback(t.Context()))
					testenv.WaitUntil(t, "no lock is left", func() bool { return len(db.AdvisoryLocks(t)) == 0 })
				}
			})
		}
	}
}

// txEndWhileWaiting runs a call that waits for a lock and ends its context meanwhile.
func txEndWhileWaiting(t *testing.T, db *testenv.DB, end txEnd, call func(context.Context) error) error {
	t.Helper()
	ctx, cancel := end.begin(t.Context())
	defer cancel()
	result := txGo(func() error { return call(ctx) })
	if !end.byItself {
		db.WaitForWaiters(t, 1)
		cancel()
	}
	return <-result
}

func TestTxAnEndedContextSendsNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	db := testenv.Database(t)
	for _, form := range txAllForms {
		var trips *txRoundTrips
		conn := txConnect(t, db.ConnString(), func(config *pgx.ConnConfig) { trips = txCountRoundTrips(config) })
		tx := txBegin(t, conn)
		var err error
		if n := trips.during(func() { err = form.lock(ctx, tx, pglock.NewKey("a")) }); n != 0 {
			t.Errorf("%s: it took %d round trips", form.name, n)
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: the error is %v", form.name, err)
		}
		txWantUsable(t, tx)
	}
}

func TestTxErrorMapsWhatItKnows(t *testing.T) {
	t.Parallel()
	server := func(code, message string) error {
		return fmt.Errorf("batch: %w", &pgconn.PgError{Code: code, Message: message})
	}
	other := errors.New("something else")
	for _, c := range []struct{ err, match error }{
		{server("55P03", "canceling statement due to lock timeout"), pglock.ErrNotAcquired},
		{fmt.Errorf("timeout: %w", context.DeadlineExceeded), pglock.ErrNotAcquired},
		{fmt.Errorf("timeout: %w", context.DeadlineExceeded), context.DeadlineExceeded},
		{&pglock.WaitError{Keys: []pglock.Key{pglock.NewKey("a")}}, pglock.ErrNotAcquired},
		{server("53200", "out of shared memory"), pglock.ErrTooManyLocks},
		{server("42704", `unrecognized configuration parameter "pglock_standby"`), pglock.ErrStandby},
		{server("42704", `unrecognized configuration parameter "pglock_stale_snapshot"`), pglock.ErrStaleSnapshot},
		{server("42704", "paramètre de configuration « pglock_stale_snapshot » non reconnu"), pglock.ErrStaleSnapshot},
	} {
		if got := pglock.TxError(c.err); !errors.Is(got, c.match) {
			t.Errorf("TxError(%v) = %v, want %v", c.err, got, c.match)
		}
	}
	for _, unchanged := range []error{
		nil, other, server("40P01", "deadlock detected"), server("57014", "canceling statement due to user request"),
		server("42704", `unrecognized configuration parameter "work.mem"`),
	} {
		if got := pglock.TxError(unchanged); got != unchanged {
			t.Errorf("TxError(%v) = %v", unchanged, got)
		}
	}
}
