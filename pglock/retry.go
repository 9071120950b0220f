package pglock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// RetryUnavailable lets a wait outlast outages of up to max each: a restart, a failover, a network failure. Without it
// the call returns [ErrUnavailable] at once. The call retries with pauses that grow to a second, until the server
// answers, ctx ends, [MaxWait] has passed, or the Locker is closed. If ctx or MaxWait ends during an outage the error
// also matches [ErrUnavailable], and is not a *[WaitError]. An outage is over when the server has answered. A wait may
// outlast any number of outages, but each costs it its place in the queues of the server and of this process.
//
// A server that is a standby ([ErrStandby]) is an outage too: during a failover the address may lead to the standby
// that is about to be promoted. An address that always leads to a standby looks the same, and fails when max has
// passed; the error then matches both.
//
// Only the wait is retried: held locks are lost as usual. Errors that retries cannot fix, such as [ErrDenied], are
// returned at once. It is an error if max is not positive, or if the call never waits.
func RetryUnavailable(max time.Duration) LockOption {
	return lockOption(func(c *lockConfig) error { return positive("RetryUnavailable", max, &c.outage) })
}

// takeInOutage repeats take while the server cannot be reached, for as long as RetryUnavailable allows.
func (l *Locker) takeInOutage(ctx context.Context, r *request) (*Lock, error) {
	lock, err := l.take(ctx, r)
	if r.config.outage == 0 {
		return lock, err
	}
	began, pause := driver.Now(), minRetry
	var outage error
	for isOutage(err) {
		err = unavailable(err)
		if r.asked { // the server answered at the beginning of this attempt
			began, pause = driver.Now(), minRetry
		}
		left := r.config.outage - driver.Now().Sub(began)
		if left <= 0 {
			return nil, fmt.Errorf("an outage for longer than RetryUnavailable allows (%v): %w", r.config.outage, err)
		}
		if ended := l.pauseInOutage(ctx, r, min(pause/2+rand.N(pause/2), left)); ended != nil {
			if errors.Is(ended, ErrClosed) && !isUnsettled(err) {
				return nil, ErrClosed
			}
			return nil, fmt.Errorf("%w: %w", ended, err)
		}
		pause, outage = min(2*pause, maxRetry), err
		r.attempt, r.token = attempt{}, l.tokenFor(r.config) // what releases the last attempt may arrive late, and knows it by its token
		lock, err = l.take(ctx, r)
	}
	// If r has waited in a queue of this process, that was behind a call which the server may have answered.
	if outage != nil && !r.asked && r.ready == nil && isEndOf(ctx, err) {
		return nil, fmt.Errorf("%w: %w", endOfWait(ctx), outage)
	}
	return lock, err
}

// isOutage reports whether err may end by itself.
func isOutage(err error) bool {
	return errors.Is(err, ErrStandby) || errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrDenied)
}

// unavailable makes the error of an outage match ErrUnavailable, as that of a standby does not.
func unavailable(err error) error {
	if errors.Is(err, ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// pauseInOutage waits for d. It returns the error that ends the wait for the lock, if any.
func (l *Locker) pauseInOutage(ctx context.Context, r *request, d time.Duration) error {
	r.reportWait(l)
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-l.closing:
		return ErrClosed
	case <-ctx.Done():
		return endOfWait(ctx)
	}
}

// endOfWait returns why ctx has ended: errMaxWait, or an error that matches the context's.
func endOfWait(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, errMaxWait) {
		return cause
	}
	return contextError(ctx, context.Cause(ctx))
}

const (
	minRetry = 50 * time.Millisecond
	maxRetry = time.Second
)
