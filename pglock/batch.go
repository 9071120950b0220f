package pglock

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
)

// QueueLockTx adds the lock to the batch b, in which it has exactly one result: it costs no round trip of its own, and
// nothing that is queued behind it is carried out unless it was granted. With [pgx.Batch.BeginTx], begin, lock and work
// are one round trip. The lock lasts until the transaction ends; a batch sent outside of one is a transaction of its
// own.
//
// Options are those of [LockTx], with one difference: a batch that meets an error is aborted as a whole, and its
// transaction with it, so after [MaxWait] or a refusal there is nothing to go on with but rollback. A key or option
// that is invalid, and a server that cannot lock at all, fail the batch before anything is sent.
//
// Results read by [pgx.BatchResults.Close] have the errors of this package. Whoever reads them by hand, or sets another
// function on the returned query, maps them with [TxError].
func QueueLockTx(b *pgx.Batch, key Key, opts ...TxOption) *pgx.QueuedQuery {
	c, err := newTxConfig(opts)
	if err == nil {
		err = key.check()
	}
	if err != nil {
		err = failed("lock", key, 0, err)
	}
	maxWait := ""
	if c.bounded {
		maxWait = strconv.FormatInt(milliseconds(c.maxWait), 10)
	}
	query := b.Queue(lockdb.QueueLockTx, batchGuard{key, err},
		maxWait, c.shared, int16(key.k.Space), key.k.Number, c.allowStandby, c.allowStale)
	query.Fn = func(results pgx.BatchResults) error {
		_, err := results.Exec()
		if err == nil {
			return nil
		}
		return txResult("", key, 0, err)
	}
	return query
}

// batchGuard fails a batch while it is being made ready to be sent. It changes nothing else.
type batchGuard struct {
	key Key
	err error
}

func (g batchGuard) RewriteQuery(_ context.Context, conn *pgx.Conn, sql string, args []any) (string, []any, error) {
	if g.err != nil {
		return "", nil, g.err
	}
	if err := checkServer(conn); err != nil {
		return "", nil, failed("lock", g.key, 0, err)
	}
	return sql, args, nil
}

// TxError maps an error of a transaction's lock to this package's: a wait that lock_timeout or a context ended becomes a
// *[WaitError] (without a key, which the error does not tell), a refusal by a guard [ErrStandby] or [ErrStaleSnapshot].
// Every other error, and nil, comes back unchanged. It is for results of [QueueLockTx] that were read by hand.
func TxError(err error) error {
	if err == nil {
		return nil
	}
	if own := (*WaitError)(nil); errors.As(err, &own) {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &WaitError{Err: err}
	}
	server := (*pgconn.PgError)(nil)
	if !errors.As(err, &server) {
		return err
	}
	switch server.Code {
	case codeLockNotAvailable:
		return &WaitError{Err: err}
	case codeUndefinedObject:
		for _, refusal := range []txOutcome{refusedStandby, refusedStale} {
			if strings.Contains(server.Message, `"`+string(refusal)+`"`) {
				return refusal.err()
			}
		}
	}
	return err
}

// Codes of https://www.postgresql.org/docs/current/errcodes-appendix.html.
const (
	codeLockNotAvailable = "55P03" // lock_timeout
	codeUndefinedObject  = "42704" // among others, a setting of an unknown name
)
