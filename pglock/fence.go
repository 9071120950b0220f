package pglock

import (
	"context"
	"fmt"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Fence returns a fencing token: a number that is strictly larger than that of every earlier holder of the key. Send it
// with each request to the resource that the lock protects, which refuses numbers smaller than the largest that it has
// seen. Every call on one Lock returns the same number.
//
// On PostgreSQL it needs the schema pglock ([ErrSchemaMissing]). A token is returned only when it is durable: written
// to disk and, where the server has synchronous standbys, confirmed by them, whatever synchronous_commit is for the
// role. So neither a crash nor a failover to such a standby brings a token back. A failover that loses transactions
// can, and so can a move by logical replication, which does not copy sequences; docs/guarantees.md says what to do
// then.
//
// For a lock in a row (package rowlock) the token is the generation of its grant, which costs no statement. A lock
// that was handed off within the process draws another. For a lock of a session it is drawn on a separate
// connection. So a standby that does not answer makes Fence wait, until ctx or the lock ends, and costs no lock.
// Then, or when the wait is cancelled on the server (an error that matches [ErrUnavailable]), there is no token, and
// a later call draws another. Shared holders get different numbers, whose order has no meaning. If the lock ends
// before the first call returns, the error matches [ErrLost] or [ErrUnlocked]. Backends without fencing return
// [ErrUnsupported]. When ctx ends first, the error matches the context's.
func (l *Lock) Fence(ctx context.Context) (int64, error) {
	const attempt = "fence"
	if number := l.fence.Load(); number != 0 {
		return number, nil
	}
	if err := l.Err(); err != nil {
		return 0, l.says(attempt, err)
	}
	fencer, ok := l.hold.locker.backend.(driver.Fencer)
	if !ok {
		return 0, l.failed(attempt, fmt.Errorf("%w by this backend", ErrUnsupported))
	}
	number, err := fencer.Fence(l.Context(ctx), l.grants())
	if ended := l.Err(); ended != nil { // the next holder may have drawn a smaller number
		return 0, l.says(attempt, ended)
	}
	if err != nil {
		return 0, l.failed(attempt, err)
	}
	l.fence.CompareAndSwap(0, number) // of calls that ask at the same time, one draws for all
	return l.fence.Load(), nil
}
