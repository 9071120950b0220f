package pglock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pglock-toolkit/pglock/internal/timing"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// RetryUnavailable lets a wait outlast outages of up to max each: a restart, a failover, a network failure. Without it
// the call returns [ErrUnavailable] at once. The call asks again, with pauses that grow to a second, until the server
// answers, ctx ends, [MaxWait] has passed, or the Locker is closed. If ctx or MaxWait ends during an outage the error
// also matches [ErrUnavailable], and is not a *[WaitError]. An outage is over when the server has answered. A wait may
// outlast any number of outages, but each costs it its place in the queues of the server and of this process.
//
// A server that is a standby ([ErrStandby]) is an outage too: during a failover the address may lead to the standby
// that is about to be promoted. An address that always leads to a standby looks the same, and fails when max has
// passed; the error then matches both.
//
// Only the wait is repeated: held locks are lost as usual. Errors that repeating cannot mend, such as [ErrDenied], are
// returned at once. It is an error if max is not positive, or if the call never waits.
func RetryUnavailable(max time.Duration) LockOption {
	return lockOption(func(c *lockConfig) error { return positive("RetryUnavailable", max, &c.outage) })
}

// takeInOutage repeats take, whose error was err, as long as the server cannot be reached and RetryUnavailable allows
// it.
func (l *Locker) takeInOutage(ctx context.Context, r *request, err error) (lock *Lock, _ error) {
	began, pause := driver.Now(), minRetry
	for isOutage(err) {
		if !errors.Is(err, ErrUnavailable) {
			err = fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		if driver.Now().Sub(began) >= r.config.outage {
			return nil, fmt.Errorf("an outage for longer than RetryUnavailable allows (%v): %w", r.config.outage, err)
		}
		r.reportWait(l)
		timing.Sleep(ctx, pause/2+rand.N(pause/2))
		pause = min(2*pause, maxRetry)
		outage, again := err, *r // what releases the last attempt may arrive late, and knows it by its token
		again.attempt, again.number = attempt{}, l.numbers.Add(1)
		switch lock, err = l.take(ctx, &again); {
		case errors.Is(err, ErrClosed): // which settles nothing that the last attempt has left open: see explain
			return nil, fmt.Errorf("%w: %w", err, outage)
		case isEndOf(ctx, err) && (!again.behind || isUnsettled(outage)):
			return nil, fmt.Errorf("%w: %w", contextError(ctx, context.Cause(ctx)), outage)
		case again.behind: // the server has answered
			began, pause = driver.Now(), minRetry
		}
		r.at, r.number = again.at, again.number
	}
	return lock, err
}

// isOutage reports whether err may end by itself.
func isOutage(err error) bool {
	return errors.Is(err, ErrStandby) || errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrDenied)
}

const (
	minRetry = 50 * time.Millisecond
	maxRetry = time.Second
)
